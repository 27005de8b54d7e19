import type { SlotRequest } from "../../api/status.ts";
import type { DocumentSet } from "../document-set.ts";
import type { RequestStore } from "../store.ts";

/** Requests by their slots. It owns `requests`. */
export function requestStore(requests: DocumentSet<SlotRequest>): RequestStore {
  return {
    list: (slot) => requests.list().filter((request) => request.slot === slot),
    put: (request) => requests.put(request),
    remove: (slot, kind, token) =>
      requests.remove(`${slot}.${kind}`, token === undefined ? undefined : (request) => request.token === token),
    watch: (onSlot) =>
      requests.watch((names) => {
        for (const slot of new Set(names.map((name) => name.slice(0, name.lastIndexOf("."))))) onSlot(slot);
      }),
    [Symbol.asyncDispose]: () => requests[Symbol.asyncDispose](),
  };
}
