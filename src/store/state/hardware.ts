import {
  probeRequestSchema,
  publishedHardwareSchema,
  type ProbeRequest,
  type PublishedHardware,
} from "../../api/hardware.ts";
import { knownPart } from "../../api/known-part.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { OpenDocuments } from "../documents.ts";

/** `<state>/hardware/`: the operator's result, and the last request for another probe. Neither is deleted. */
export interface HardwareStore extends AsyncDisposable {
  found(): PublishedHardware | undefined;
  /** The request that no probe has answered yet. */
  pending(): ProbeRequest | undefined;
  requestProbe(request: ProbeRequest): Promise<void>;
  publish(found: PublishedHardware): Promise<void>;
  watch(onChange: () => void): Disposable;
}

/** Used by both sides: a gateway requests, the operator publishes. */
export async function openHardwareStore(open: OpenDocuments): Promise<HardwareStore> {
  const subscribers = new Subscribers<[]>();
  const documents = await open<PublishedHardware | ProbeRequest>("hardware", {
    parse: (value) => knownPart(publishedHardwareSchema, value) ?? probeRequestSchema.safeParse(value).data,
    onChange: () => subscribers.notify(),
  });
  const found = (): PublishedHardware | undefined => {
    const value = documents.get("found");
    return value !== undefined && "hardware" in value ? value : undefined;
  };
  return {
    found,
    pending() {
      const request = documents.get("request");
      return request !== undefined && "token" in request && request.token !== found()?.answers ? request : undefined;
    },
    requestProbe: (request) => documents.put("request", probeRequestSchema.parse(request), { isLasting: false }),
    publish: (value) =>
      documents.put("found", publishedHardwareSchema.parse(value), { isLasting: false, isKept: true }),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => documents[Symbol.asyncDispose](),
  };
}
