import { loopbackHost } from "../../api/workload.ts";
import { readEntry } from "../../lib/process-identity.ts";
import type { RuntimeTraits } from "../runtime.ts";

export const processTraits: RuntimeTraits = {
  kind: "process",
  runs: "program",
  identity: "pid",
  addressing: { listenHost: loopbackHost, hasOwnNetwork: false, needsHostPort: true },
  /** The engine's first process, or one of its group or session: vLLM has several. */
  owns({ pid }, other) {
    if (pid === undefined || pid === other) return pid === other;
    const entry = readEntry(other);
    return entry?.group === pid || entry?.session === pid;
  },
};
