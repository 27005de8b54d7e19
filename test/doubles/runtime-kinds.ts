import type { RuntimeKind } from "../../src/api/names.ts";
import type { Placement } from "../../src/engines/engine.ts";
import { dockerTraits } from "../../src/runtimes/docker/traits.ts";
import { kubernetesTraits } from "../../src/runtimes/kubernetes/traits.ts";
import { processTraits } from "../../src/runtimes/process/traits.ts";
import type { RuntimeTraits } from "../../src/runtimes/runtime.ts";

export const traitsOfKind = {
  process: processTraits,
  docker: dockerTraits,
  kubernetes: kubernetesTraits,
} as const satisfies Record<RuntimeKind, RuntimeTraits>;

/** The part of a placement that follows from the runtime. */
export function runningIn(
  kind: RuntimeKind,
): Pick<Placement, "runtime" | "runs" | "addressing" | "inCluster" | "isElsewhere"> {
  const { runs, addressing, inCluster, isElsewhere }: RuntimeTraits = traitsOfKind[kind];
  return {
    runtime: kind,
    runs,
    addressing,
    ...(inCluster === true ? { inCluster } : {}),
    ...(isElsewhere === true ? { isElsewhere } : {}),
  };
}
