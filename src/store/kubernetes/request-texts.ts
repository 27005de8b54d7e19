import { didYouMean, nearest } from "../../api/nearest.ts";
import { requestKinds, slotRequestSchema, type RequestKind, type SlotRequest } from "../../api/status.ts";
import { sha256 } from "../../lib/canonical.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { parseJson } from "../../lib/json.ts";
import { judgeSpec } from "../judged-spec.ts";
import { acceptedPrefix, objectName, requestPrefix } from "./names.ts";

/** The annotation that people and the API write. */
export const annotationOf = (kind: RequestKind): string => `${requestPrefix}${kind}`;
/** The annotation that the operator writes beside a person's. */
export const acceptedOf = (kind: RequestKind): string => `${acceptedPrefix}${kind}`;

/** The annotation by which a person says for which generation of the object the request is; absent: for any. */
export const generationOf = (kind: RequestKind): string => `${annotationOf(kind)}-generation`;

/** What a person wrote names nothing that could be done, or was written for another generation of the object. */
export class BadRequestText extends Error {
  constructor(slot: string, annotation: string, why: string) {
    super(`the annotation ${annotation} of ${objectName("Slot", slot)} is no request${why}`);
    this.name = "BadRequestText";
  }
}

const known: ReadonlySet<string> = new Set(
  requestKinds.flatMap((kind) => [annotationOf(kind), acceptedOf(kind), generationOf(kind)]),
);

/** The annotations of Berth's own prefix that name no request, as a misspelt one. */
export function unknownIn({ meta: { name, annotations } }: KubeObject): readonly BadRequestText[] {
  const unknown = Object.keys(annotations).filter((key) => key.startsWith(requestPrefix) && !known.has(key));
  return unknown.map((key) => new BadRequestText(name, key, didYouMean(nearest(key, known))));
}

/** The request in force; undefined without one, and for a person's text that is not accepted yet. */
export function requestIn(object: KubeObject, kind: RequestKind): SlotRequest | undefined {
  const written = writtenIn(object, kind);
  if (written !== undefined) return written;
  const token = tokenIn(object, kind);
  const accepted = read(object, kind, object.meta.annotations[acceptedOf(kind)]);
  return token !== undefined && accepted?.token === token ? accepted : undefined;
}

/** The request that the API wrote as a whole. */
export function writtenIn(object: KubeObject, kind: RequestKind): SlotRequest | undefined {
  return read(object, kind, object.meta.annotations[annotationOf(kind)]);
}

/**
 * The request of a person's text that was never accepted. Throws BadRequestText for a text that names no model, and for one
 * that was written for another generation than the object has: its writer has not seen the spec that is there.
 */
export function newRequest(object: KubeObject, kind: RequestKind): SlotRequest | undefined {
  const { name: slot, annotations, generation } = object.meta;
  const text = annotations[annotationOf(kind)];
  const token = tokenIn(object, kind);
  // A result of a benchmark is nothing that a person writes.
  if (text === undefined || token === undefined || kind === "benchmark") return undefined;
  if (isAccepted(object, kind, token)) return undefined;
  const seen = annotations[generationOf(kind)];
  if (seen !== undefined && seen !== String(generation))
    throw new BadRequestText(
      slot,
      annotationOf(kind),
      `: it is for generation ${seen.slice(0, 20)}, and the object has ${generation}`,
    );
  const judged = judgeSpec("Slot", slot, object.value["spec"] ?? {});
  // Its hash would be that of no spec: the request is accepted once the spec can be read.
  if (!judged.isWellFormed) return undefined;
  const { specHash, spec } = judged;
  const request = { schema: 1, slot, kind, specHash, token, requestedAt: new Date().toISOString() };
  if (kind !== "swap-model") return slotRequestSchema.parse(request);
  const specModel = "model" in spec ? spec.model.default : undefined;
  const swap = { ...request, model: text.trim(), ...(specModel === undefined ? {} : { specModel }) };
  const read = slotRequestSchema.safeParse(swap).data;
  if (read === undefined)
    throw new BadRequestText(slot, annotationOf(kind), `: "${text.slice(0, 100)}" is not a model's name`);
  return read;
}

/** Whether the accepted request belongs to a text that a person has removed or replaced. */
export function staleIn(object: KubeObject, kind: RequestKind): boolean {
  const accepted = object.meta.annotations[acceptedOf(kind)];
  const token = tokenIn(object, kind);
  return accepted !== undefined && accepted !== token && read(object, kind, accepted)?.token !== token;
}

function isAccepted(object: KubeObject, kind: RequestKind, token: string): boolean {
  const accepted = object.meta.annotations[acceptedOf(kind)];
  return accepted === token || read(object, kind, accepted)?.token === token;
}

/** Of a person's text: the same text of the same object acts once. Undefined without one. */
function tokenIn({ meta }: KubeObject, kind: RequestKind): string | undefined {
  const text = meta.annotations[annotationOf(kind)];
  return text === undefined || isWhole(text) ? undefined : sha256(`${meta.uid} ${kind} ${text}`).slice(0, 32);
}

const isWhole = (text: string): boolean => text.startsWith("{");

function read({ meta }: KubeObject, kind: RequestKind, text: string | undefined): SlotRequest | undefined {
  if (text === undefined || !isWhole(text)) return undefined;
  const request = slotRequestSchema.safeParse(parseJson(text)).data;
  return request?.slot === meta.name && request.kind === kind ? request : undefined;
}
