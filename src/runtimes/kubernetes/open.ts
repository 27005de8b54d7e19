import type { Config } from "../../api/config.ts";
import { openApiClient } from "../../kubernetes/client.ts";
import { fencedClient } from "../../kubernetes/fenced-client.ts";
import { connect, NoConnection } from "../../kubernetes/connection.ts";
import { secretPlaces } from "../../lib/secret-file.ts";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import type { Runtime } from "../runtime.ts";
import { openKubernetesRuntime } from "./kubernetes.ts";
import { modelVolume } from "./in-cluster.ts";

/** Nobody's user: what an operator that runs as root gives its engines. */
const nobody = 65_532;

/**
 * The runtime of the cluster that the environment leads to. Rejects with RuntimeUnavailable where it leads to none: a
 * person mends the kubeconfig while the operator runs.
 */
export async function openPodRuntime({
  config,
  instance,
  env,
  signal,
  check = () => undefined,
}: {
  readonly config: Pick<
    Config,
    | "modelsDir"
    | "podModels"
    | "podVolumes"
    | "podLabels"
    | "unrestrictedContainers"
    | "secretsDir"
    | "stateDir"
    | "configDir"
  >;
  readonly instance: string;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  /** Throws where this operator may not act any more; called right before each write. */
  readonly check?: () => void;
}): Promise<Runtime> {
  const connection = await connect(env).catch((error: unknown) => {
    throw error instanceof NoConnection ? new RuntimeUnavailable(error.message, { cause: error }) : error;
  });
  const models = modelVolume(config, env);
  const node = env["NODE_NAME"];
  return await openKubernetesRuntime({
    client: fencedClient(openApiClient(connection), check),
    site: {
      instance,
      isUnrestricted: config.unrestrictedContainers,
      volumes: config.podVolumes,
      labels: config.podLabels,
      user: process.getuid?.() || nobody,
      ...(models === undefined ? {} : { models }),
      ...(node === undefined ? {} : { node }),
    },
    secrets: secretPlaces(config),
    signal,
  });
}
