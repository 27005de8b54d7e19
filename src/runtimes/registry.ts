import { existsSync } from "node:fs";
import { mayRunProcesses, type Config } from "../api/config.ts";
import { secretPlaces } from "../lib/secret-file.ts";
import type { PublishedSlot } from "../api/status.ts";
import { socketPath } from "./docker/socket.ts";
import { openProcessRuntime } from "./process/process.ts";
import { dockerTraits } from "./docker/traits.ts";
import { isInCluster } from "./kubernetes/in-cluster.ts";
import { podTraits } from "./kubernetes/traits.ts";
import { RuntimeUnavailable } from "./runtime-unavailable.ts";
import { RuntimeSet, type RuntimeEntry } from "./set.ts";

const noProcesses =
  "runtime process is not allowed in this cluster: the engine would run beside the operator, with its rights; " +
  "use runtime kubernetes, or start the operator with SVC_ALLOW_PROCESSES=1";

export interface RegistryOptions {
  /** How long a runtime may send nothing before a list of it fails. */
  readonly listTimeoutMs?: number;
  /** Throws where this operator may not act any more. */
  readonly check?: () => void;
  /** Says where a cluster is. */
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Every runtime of this installation: the one list of them. A daemon or cluster is asked at once where
 * slots run in it or may come to, otherwise only when a slot names it: what an earlier configuration has left there must
 * be found.
 */
export async function openRuntimes(
  config: Config,
  instance: string,
  published: Iterable<{ readonly status: Pick<PublishedSlot["status"], "runtime"> }>,
  { listTimeoutMs, check, env = process.env }: RegistryOptions = {},
): Promise<RuntimeSet> {
  const { stateDir, configDir, modelsDir, engineUser, dockerHost, unrestrictedContainers } = config;
  const secrets = secretPlaces(config);
  const processes = await openProcessRuntime({
    stateDir,
    instance,
    secrets,
    ...(mayRunProcesses(config) ? {} : { refusal: noProcesses }),
    ...(engineUser === undefined ? {} : { engineUser }),
    ...(check === undefined ? {} : { check }),
  });
  const docker: RuntimeEntry = {
    traits: dockerTraits,
    async open(signal) {
      // Imported only here, since its client is large.
      const { openDockerRuntime } = await import("./docker/docker.ts");
      return await openDockerRuntime({
        stateDir,
        configDir,
        modelsDir,
        instance,
        secrets,
        dockerHost,
        isUnrestricted: unrestrictedContainers,
        signal,
        ...(listTimeoutMs === undefined ? {} : { listTimeoutMs }),
      });
    },
  };
  const isStoreInCluster = config.store === "kubernetes";
  const pods: RuntimeEntry = {
    traits: podTraits(config, env),
    // A KUBECONFIG of this machine says where a cluster is, and not that engines belong there.
    isNamedOnly: !isStoreInCluster,
    async open(signal) {
      const { openPodRuntime } = await import("./kubernetes/open.ts");
      return await openPodRuntime({ config, instance, env, signal, ...(check === undefined ? {} : { check }) });
    },
  };
  const mayBe =
    config.runtime === "auto"
      ? [...(existsSync(socketPath(dockerHost) ?? "") ? ["docker"] : []), ...(isStoreInCluster ? ["kubernetes"] : [])]
      : [];
  // Preferred first, by `runtime: auto`.
  const entries = isInCluster(config, env) ? [pods, docker] : [docker];
  const set = new RuntimeSet(processes, entries, check);
  const named = new Set<string>([config.runtime, ...mayBe]);
  const earlier = new Set(Array.from(published, ({ status }) => status.runtime));
  for (const { traits } of entries) {
    if (named.has(traits.kind)) await set.need(traits.kind);
    else if (earlier.has(traits.kind)) await set.need(traits.kind).catch(ignoreUnavailable);
  }
  return set;
}

/** It concerns the slots that ran there alone, which say so. */
function ignoreUnavailable(error: unknown): void {
  if (!(error instanceof RuntimeUnavailable)) throw error;
}
