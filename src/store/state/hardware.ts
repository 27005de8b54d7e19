import type { ProbeRequest, PublishedHardware } from "../../api/hardware.ts";
import type { DocumentSet } from "../document-set.ts";

/** The operator's result, and the last request for another probe. */
export interface HardwareStore {
  found(): PublishedHardware | undefined;
  /** The request that no probe has answered yet. */
  pending(): ProbeRequest | undefined;
  requestProbe(request: ProbeRequest): Promise<void>;
  publish(found: PublishedHardware): Promise<void>;
  watch(onChange: () => void): Disposable;
}

export function hardwareStore(
  hardware: DocumentSet<PublishedHardware>,
  requests: DocumentSet<ProbeRequest>,
): HardwareStore {
  return {
    found: () => hardware.only(),
    pending() {
      const request = requests.only();
      return request?.token === hardware.only()?.answers ? undefined : request;
    },
    requestProbe: (request) => requests.put(request),
    publish: (found) => hardware.put(found),
    watch(onChange) {
      const stack = new DisposableStack();
      for (const set of [hardware, requests]) stack.use(set.watch(onChange));
      return stack;
    },
  };
}
