import type { RuntimeTraits } from "../runtime.ts";

export const kubernetesTraits: RuntimeTraits = {
  kind: "kubernetes",
  runs: "image",
  service: "cluster",
  identity: "podName",
  // Each Pod has an address of its own, and no port of a host.
  addressing: { listenHost: "0.0.0.0", hasOwnNetwork: true, needsHostPort: false },
  endsWithBoot: false,
  isElsewhere: true,
  pullsAfterStart: true,
  inCluster: true,
  owns: () => false,
};
