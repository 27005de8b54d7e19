import { requestKinds, slotRequestSchema, type RequestKind, type SlotRequest } from "../../api/status.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { isStatus } from "../../lib/kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../lib/kubernetes/client.ts";
import type { KubeObject } from "../../lib/kubernetes/object.ts";
import { parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { judgeSpec } from "../judged-spec.ts";
import type { OpenMaps } from "./maps.ts";
import type { RequestStore } from "../store.ts";
import { collectionOf, requestPrefix } from "./names.ts";

export interface SlotObjects {
  get(name: string): KubeObject | undefined;
  note(answer: unknown): void;
  watch(onChange: (names: readonly string[]) => void): Disposable;
}

const seenLimit = 4096;

const annotationOf = (kind: RequestKind): string => `${requestPrefix}${kind}`;

/**
 * Requests as annotations of the Slot: `berth.dev/restart` and the like. The API writes a whole request as JSON; a
 * person writes any other text, which for a swap is the model's ref. A slot without an object has its requests in a
 * ConfigMap.
 */
export async function openRequests(client: ApiClient, slots: SlotObjects, maps: OpenMaps): Promise<RequestStore> {
  const subscribers = new Subscribers<[slot: string]>();
  const bare = await maps<SlotRequest>("requests", {
    parse: (value) => slotRequestSchema.safeParse(value).data,
    onChange: (names) => {
      for (const slot of new Set(names.map((name) => name.slice(0, name.lastIndexOf("."))))) subscribers.notify(slot);
    },
  });
  const last = new Map<string, string>();
  /** When this process first saw a person's annotation, by its token: an engine that is younger has answered it. */
  const seenAt = new Map<string, string>();
  const firstSeen = (token: string): string => {
    const at = seenAt.get(token) ?? new Date().toISOString();
    seenAt.set(token, at);
    const [oldest] = seenAt.keys();
    if (seenAt.size > seenLimit && oldest !== undefined) seenAt.delete(oldest);
    return at;
  };
  const watch = slots.watch((names) => {
    for (const name of names) {
      const annotations = slots.get(name)?.meta.annotations;
      const now = annotations && canonicalJson(requestKinds.map((kind) => annotations[annotationOf(kind)]));
      if (last.get(name) === now) continue;
      if (now === undefined) last.delete(name);
      else last.set(name, now);
      subscribers.notify(name);
    }
  });
  /** A removal is refused where the object is another by now. */
  const annotate = async (object: KubeObject, kind: RequestKind, value: string | null): Promise<void> => {
    const { name, uid, resourceVersion } = object.meta;
    const metadata = {
      uid,
      annotations: { [annotationOf(kind)]: value },
      ...(value === null ? { resourceVersion } : {}),
    };
    const path = `${collectionOf("Slot", client.namespace)}/${name}`;
    slots.note(await client.request("PATCH", path, { body: { metadata }, contentType: patchTypes.merge }));
  };
  const inAnnotations = (object: KubeObject): readonly SlotRequest[] =>
    requestKinds.flatMap((kind) => {
      const text = object.meta.annotations[annotationOf(kind)];
      return text === undefined ? [] : (requestIn(object, kind, text, firstSeen) ?? []);
    });
  return {
    list(slot) {
      const object = slots.get(slot);
      if (object !== undefined) return inAnnotations(object);
      return [...bare.values()].flatMap(([, request]) => (request.slot === slot ? [request] : []));
    },
    async put(request) {
      const object = slots.get(request.slot);
      const valid = slotRequestSchema.parse(request);
      if (object === undefined) await bare.put(`${request.slot}.${request.kind}`, valid, { isLasting: true });
      else await annotate(object, request.kind, JSON.stringify(valid));
    },
    async remove(slot, kind, token) {
      for (;;) {
        const object = slots.get(slot);
        if (object === undefined) {
          const key = `${slot}.${kind}`;
          return await bare.deleteIf(key, (request) => token === undefined || request.token === token);
        }
        const text = object.meta.annotations[annotationOf(kind)];
        // A person's own annotation stays: a Git tool would only write it again. Its token is handled once.
        if (text === undefined || !isWritten(text)) return;
        if (token !== undefined && requestIn(object, kind, text, firstSeen)?.token !== token) return;
        try {
          await annotate(object, kind, null);
          return;
        } catch (error) {
          if (isStatus(error, 404)) return;
          if (!isStatus(error, 409)) throw error;
          // Another writer was faster: what it wrote decides.
          const path = `${collectionOf("Slot", client.namespace)}/${slot}`;
          slots.note(await client.request("GET", path));
        }
      }
    },
    watch: (onSlot) => subscribers.add(onSlot),
    async [Symbol.asyncDispose]() {
      watch[Symbol.dispose]();
      await bare[Symbol.asyncDispose]();
    },
  };
}

const isWritten = (text: string): boolean => text.startsWith("{");

function requestIn(
  { meta, value }: KubeObject,
  kind: RequestKind,
  text: string,
  firstSeen: (token: string) => string,
): SlotRequest | undefined {
  const { name: slot, uid } = meta;
  if (isWritten(text)) {
    const request = slotRequestSchema.safeParse(parseJson(text)).data;
    return request?.slot === slot && request.kind === kind ? request : undefined;
  }
  const token = sha256(`${uid} ${kind} ${text}`).slice(0, 32);
  if (isHandled(value, kind, token)) return undefined;
  const judged = judgeSpec("Slot", slot, value["spec"] ?? {});
  if (!judged.isWellFormed) return undefined;
  const { specHash } = judged;
  const request = { schema: 1, slot, kind, specHash, token, requestedAt: firstSeen(token) };
  return slotRequestSchema.safeParse(kind === "swap-model" ? { ...request, model: text.trim() } : request).data;
}

function isHandled(value: KubeObject["value"], kind: RequestKind, token: string): boolean {
  const { status } = value;
  return isRecord(status) && isRecord(status["handledRequests"]) && status["handledRequests"][kind] === token;
}
