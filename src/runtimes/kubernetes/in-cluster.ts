import type { Config } from "../../api/config.ts";
import type { ModelVolume } from "./pod-volumes.ts";

/**
 * Whether slots may run as Pods here: a setting names the cluster, or the environment says where one is. Nobody is
 * asked, and no client is loaded.
 */
export function isInCluster({ store, runtime }: Pick<Config, "store" | "runtime">, env: NodeJS.ProcessEnv): boolean {
  const isNamed = store === "kubernetes" || runtime === "kubernetes";
  return isNamed || (env["KUBECONFIG"] ?? "") !== "" || env["KUBERNETES_SERVICE_HOST"] !== undefined;
}

/** An operator outside of every Pod is on the node; the directory of one in a Pod is a volume that only a setting names. */
export function modelVolume(
  { modelsDir: directory, podModels }: Pick<Config, "modelsDir" | "podModels">,
  env: Readonly<Record<string, string | undefined>>,
): ModelVolume | undefined {
  if (podModels?.startsWith("claim:") === true) return { directory, source: { claim: podModels.slice(6) } };
  if (podModels?.startsWith("path:") === true) return { directory, source: { path: podModels.slice(5) } };
  return env["KUBERNETES_SERVICE_HOST"] === undefined ? { directory, source: { path: directory } } : undefined;
}

/** Whether Pods must run on the operator's node: their models are a directory of it. */
export function isOnNode({
  node,
  models,
}: {
  readonly node?: string | undefined;
  readonly models?: ModelVolume | undefined;
}): boolean {
  return node !== undefined && models !== undefined && "path" in models.source;
}
