import type { Config } from "../../api/config.ts";
import { openApiClient } from "../../lib/kubernetes/client.ts";
import { fencedClient } from "../../lib/kubernetes/fenced-client.ts";
import { connect } from "../../lib/kubernetes/connection.ts";
import type { Runtime } from "../runtime.ts";
import { openKubernetesRuntime } from "./kubernetes.ts";
import type { ModelVolume } from "./pod-volumes.ts";

/** Nobody's user: what an operator that runs as root gives its engines. */
const nobody = 65_532;

/** The runtime of the cluster that the environment leads to. Rejects with NoConnection where it leads to none. */
export async function openPodRuntime({
  config,
  instance,
  env,
  signal,
  check = () => undefined,
}: {
  readonly config: Pick<Config, "modelsDir" | "podModels" | "allowHostMounts">;
  readonly instance: string;
  readonly env: NodeJS.ProcessEnv;
  readonly signal: AbortSignal;
  /** Throws where this operator may not act any more; called right before each write. */
  readonly check?: () => void;
}): Promise<Runtime> {
  const models = modelVolume(config, env);
  const node = env["NODE_NAME"];
  return await openKubernetesRuntime({
    client: fencedClient(openApiClient(await connect(env)), check),
    site: {
      instance,
      allowsHostMounts: config.allowHostMounts,
      user: process.getuid?.() || nobody,
      ...(models === undefined ? {} : { models }),
      ...(node === undefined ? {} : { node }),
    },
    signal,
  });
}

/** An operator outside of every Pod is on the node; the directory of one in a Pod is a volume that only a setting names. */
function modelVolume(
  { modelsDir: directory, podModels }: Pick<Config, "modelsDir" | "podModels">,
  env: NodeJS.ProcessEnv,
): ModelVolume | undefined {
  if (podModels?.startsWith("claim:") === true) return { directory, source: { claim: podModels.slice(6) } };
  if (podModels?.startsWith("path:") === true) return { directory, source: { path: podModels.slice(5) } };
  return env["KUBERNETES_SERVICE_HOST"] === undefined ? { directory, source: { path: directory } } : undefined;
}
