import { isIPv6 } from "node:net";
import type { Config } from "../../api/config.ts";
import type { RuntimeTraits } from "../runtime.ts";
import { isOnNode, modelVolume } from "./in-cluster.ts";

/** The traits in a cluster of which the environment says nothing. */
export const kubernetesTraits: RuntimeTraits = {
  kind: "kubernetes",
  runs: "image",
  service: "cluster",
  identity: "podName",
  // Each Pod has an address of its own, and no port of a host.
  addressing: { listenHost: "0.0.0.0", hasOwnNetwork: true, needsHostPort: false },
  isElsewhere: true,
  pullsAfterStart: true,
  inCluster: true,
  owns: () => false,
};

/**
 * As this process's environment says: Pods have addresses of the family of this Pod and of the API server's Service, and
 * all run on this node where their models are a directory of it.
 */
export function podTraits(
  config: Pick<Config, "modelsDir" | "podModels">,
  env: Readonly<Record<string, string | undefined>>,
): RuntimeTraits {
  const address = env["POD_IP"] ?? env["KUBERNETES_SERVICE_HOST"] ?? "";
  const isPinned = isOnNode({ node: env["NODE_NAME"], models: modelVolume(config, env) });
  return {
    ...kubernetesTraits,
    addressing: { ...kubernetesTraits.addressing, listenHost: isIPv6(address) ? "::" : "0.0.0.0" },
    ...(isPinned ? { isOnThisMachine: true } : {}),
  };
}
