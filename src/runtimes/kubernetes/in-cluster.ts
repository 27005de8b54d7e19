import type { Config } from "../../api/config.ts";

/**
 * Whether slots may run as Pods here: a setting names the cluster, or the environment says where one is. Nobody is
 * asked, and no client is loaded.
 */
export function isInCluster({ store, runtime }: Pick<Config, "store" | "runtime">, env: NodeJS.ProcessEnv): boolean {
  const isNamed = store === "kubernetes" || runtime === "kubernetes";
  return isNamed || (env["KUBECONFIG"] ?? "") !== "" || env["KUBERNETES_SERVICE_HOST"] !== undefined;
}
