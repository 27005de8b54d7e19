import { readFileSync } from "node:fs";
import type { RuntimeTraits } from "../runtime.ts";

export const dockerTraits: RuntimeTraits = {
  kind: "docker",
  runs: "image",
  service: "container engine",
  identity: "containerId",
  // Published on loopback (container-options.ts): inside, the engine listens on all addresses.
  addressing: { listenHost: "0.0.0.0", hasOwnNetwork: true, needsHostPort: true },
  owns({ containerId }, pid) {
    return containerId !== undefined && readFileSync(`/proc/${pid}/cgroup`, "latin1").includes(containerId);
  },
};
