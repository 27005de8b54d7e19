import { requestKinds, slotRequestSchema, type SlotRequest } from "../../api/status.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { openSet } from "../document-set.ts";
import type { OpenDocuments } from "../documents.ts";
import { sets } from "../sets.ts";
import { requestStore } from "../state/requests.ts";
import { LeadershipLost, type RequestStore } from "../store.ts";
import { collectionOf, requestPrefix } from "./names.ts";
import {
  acceptedOf,
  annotationOf,
  BadRequestText,
  generationOf,
  newRequest,
  requestIn,
  staleIn,
  unknownIn,
  writtenIn,
} from "./request-texts.ts";

export interface SlotObjects {
  get(name: string): KubeObject | undefined;
  note(answer: unknown): void;
  watch(onChange: (names: readonly string[]) => void): Disposable;
}

/** Of the operator, which alone accepts what people write. */
export interface Acceptance {
  readonly names: () => readonly string[];
  /** Nobody can act on an annotation of that object. */
  readonly onBadText: (object: KubeObject, error: BadRequestText) => void;
  readonly onError: (error: unknown) => void;
}

/** Between attempts to accept what a person wrote. */
const retryMs = 1000;

/**
 * Requests as annotations of the Slot: `berth.dev/restart` and the like. The API writes a whole request as JSON; a
 * person writes any other text, which for a swap is the model's ref. The operator accepts a person's text once, and writes
 * the whole request beside it: the text itself stays, because a Git tool would only write it again. A slot without an object
 * has its requests in a ConfigMap.
 */
export async function openRequests(
  client: ApiClient,
  slots: SlotObjects,
  maps: OpenDocuments,
  acceptance?: Acceptance,
): Promise<RequestStore> {
  const subscribers = new Subscribers<[slot: string]>();
  const bare = requestStore(await openSet(maps, sets.slotRequests));
  const bareWatch = bare.watch((slot) => subscribers.notify(slot));
  const last = new Map<string, string>();
  /** Slots whose texts are being accepted; true: they have changed meanwhile. */
  const accepting = new Map<string, boolean>();
  const timers = new Set<NodeJS.Timeout>();
  /** By slot, what was said of texts that nobody can act on: it is said once. */
  const refused = new Map<string, Set<string>>();
  let isClosed = false;

  /** `value` null: a removal. Refused where the object is another by now, or has changed unless `isBlind`. */
  const annotate = async (object: KubeObject, key: string, value: string | null, isBlind = false): Promise<void> => {
    const { name, uid, resourceVersion } = object.meta;
    const metadata = { uid, annotations: { [key]: value }, ...(isBlind ? {} : { resourceVersion }) };
    const path = `${collectionOf("Slot", client.namespace)}/${name}`;
    slots.note(await client.request("PATCH", path, { body: { metadata }, contentType: patchTypes.merge }));
  };
  const readAgain = async (slot: string): Promise<void> =>
    slots.note(await client.request("GET", `${collectionOf("Slot", client.namespace)}/${slot}`));

  const acceptTexts = async (name: string): Promise<void> => {
    const now = new Set<string>();
    const refuse = (object: KubeObject, error: BadRequestText): void => {
      now.add(error.message);
      const said = refused.get(name) ?? new Set();
      if (said.has(error.message)) return;
      refused.set(name, said.add(error.message));
      acceptance?.onBadText(object, error);
    };
    const found = slots.get(name);
    if (found !== undefined) for (const error of unknownIn(found)) refuse(found, error);
    for (const kind of requestKinds) {
      const object = slots.get(name);
      if (object === undefined || object.meta.isDeleted) return;
      try {
        const request = newRequest(object, kind);
        // Blind: where the text has changed meanwhile, the next pass accepts the new one. Not where it is for one generation.
        const isBlind = !(generationOf(kind) in object.meta.annotations);
        if (request !== undefined) await annotate(object, acceptedOf(kind), JSON.stringify(request), isBlind);
        else if (staleIn(object, kind)) await annotate(object, acceptedOf(kind), null, true);
      } catch (error) {
        if (!(error instanceof BadRequestText)) throw error;
        refuse(object, error);
      }
    }
    // A pass that fails before its end has not read every text: what was said of the others stays said.
    refused.set(name, now);
  };
  const accept = (name: string): void => {
    if (acceptance === undefined || isClosed) return;
    if (accepting.has(name)) {
      accepting.set(name, true);
      return;
    }
    accepting.set(name, false);
    acceptTexts(name)
      .catch((error: unknown) => {
        // Another object of that name, of which the watch tells, or none.
        if (error instanceof LeadershipLost || isStatus(error, 404, 409)) return;
        acceptance.onError(error);
        if (isClosed) return;
        const timer = setTimeout(() => {
          timers.delete(timer);
          accept(name);
        }, retryMs);
        timers.add(timer.unref());
      })
      .finally(() => {
        const hasChanged = accepting.get(name) === true;
        accepting.delete(name);
        if (hasChanged) accept(name);
      });
  };

  const watch = slots.watch((names) => {
    for (const name of names) {
      const meta = slots.get(name)?.meta;
      const keys = requestKinds.flatMap((kind) => [annotationOf(kind), acceptedOf(kind)]);
      const now = meta && canonicalJson([meta.uid, ...keys.map((key) => meta.annotations[key])]);
      // Also after a change of the spec, without which nothing could be accepted.
      if (meta !== undefined && Object.keys(meta.annotations).some((key) => key.startsWith(requestPrefix)))
        accept(name);
      if (last.get(name) === now) continue;
      if (now === undefined) {
        last.delete(name);
        refused.delete(name);
      } else last.set(name, now);
      subscribers.notify(name);
    }
  });
  for (const name of acceptance?.names() ?? []) accept(name);

  return {
    list(slot) {
      const object = slots.get(slot);
      if (object !== undefined) return requestKinds.flatMap((kind) => requestIn(object, kind) ?? []);
      return bare.list(slot);
    },
    async put(request) {
      const object = slots.get(request.slot);
      if (object === undefined) return await bare.put(request);
      const valid = slotRequestSchema.parse(request);
      await annotate(object, placeOf(object, valid), JSON.stringify(valid), true);
    },
    async remove(slot, kind, token) {
      for (;;) {
        const object = slots.get(slot);
        if (object === undefined) return await bare.remove(slot, kind, token);
        const found = requestIn(object, kind);
        if (found === undefined || (token !== undefined && found.token !== token)) return;
        const isWritten = writtenIn(object, kind) !== undefined;
        try {
          if (isWritten) await annotate(object, annotationOf(kind), null);
          else await annotate(object, acceptedOf(kind), found.token);
          return;
        } catch (error) {
          if (isStatus(error, 404)) return;
          if (!isStatus(error, 409)) throw error;
          // Another writer was faster: what it wrote decides.
          await readAgain(slot);
        }
      }
    },
    watch: (onSlot) => subscribers.add(onSlot),
    async [Symbol.asyncDispose]() {
      isClosed = true;
      for (const timer of timers) clearTimeout(timer);
      watch[Symbol.dispose]();
      bareWatch[Symbol.dispose]();
      await bare[Symbol.asyncDispose]();
    },
  };
}

/** A request that was accepted is changed where it was accepted: beside the person's text. */
function placeOf(object: KubeObject, { kind, token }: SlotRequest): string {
  const isAccepted = writtenIn(object, kind) === undefined && requestIn(object, kind)?.token === token;
  return isAccepted ? acceptedOf(kind) : annotationOf(kind);
}
