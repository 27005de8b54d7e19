import { readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import { publishedSlotSchema, type PublishedSlot } from "../../api/status.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { parseJson } from "../../lib/json.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";

/** What processes require of gateways: secrets, and so in a Secret and not in a status that every reader is shown. */
export type Bearers = Pick<PublishedSlot, "bearerList">;

/**
 * A published slot as the status of its object: the slot's own status, and beside it the record of everything else, as
 * one line of JSON: a person who reads the status sees the spec once. The spec in force is in it, since an edit may have
 * replaced that of the object. `bearersHash` ties it to the version of its bearers, which come by another watch.
 */
export function statusOf(slot: PublishedSlot): Readonly<Record<string, unknown>> {
  const { name: _name, status, bearerList, ...record } = slot;
  return { ...status, record: JSON.stringify({ ...record, ...bearersHash({ bearerList }) }) };
}

export function hasRecord({ value: { status } }: KubeObject): boolean {
  return isRecord(status) && typeof status["record"] === "string";
}

/** Of a Slot's object what its operator reads after it has taken over: its own memory has the rest of the status. */
export function withoutState({ status, ...rest }: KubeObject["value"]): KubeObject["value"] {
  if (!isRecord(status)) return rest;
  return typeof status["record"] === "string" ? { ...rest, status: { record: "" } } : rest;
}

/**
 * Undefined for an object without a record, or where its bearers are of another version: they come in a moment. The Secret
 * keeps the bearers of engines that have ended; a record without a hash needs none.
 */
export function publishedOf(
  object: KubeObject,
  bearers: Bearers | undefined,
  onUnknown: OnUnknown,
): PublishedSlot | undefined {
  const hash = recordIn(object)?.["bearersHash"];
  const found = bearersOf(bearers);
  return hash === undefined || hash === bearersHash(found).bearersHash ? readSlot(object, found, onUnknown) : undefined;
}

/**
 * As an operator reads it that takes over: bearers of another version are left out. The last one may have ended between its
 * two writes, or a person has deleted the Secret; an engine's own bearer is found beside the engine.
 */
export function lastPublishedOf(
  object: KubeObject,
  bearers: Bearers | undefined,
  onUnknown: OnUnknown,
): PublishedSlot | undefined {
  return publishedOf(object, bearers, onUnknown) ?? readSlot(object, {}, onUnknown);
}

function recordIn({ value: { status } }: KubeObject): Readonly<Record<string, unknown>> | undefined {
  const text = isRecord(status) ? status["record"] : undefined;
  const record = typeof text === "string" ? parseJson(text) : undefined;
  return isRecord(record) ? record : undefined;
}

function readSlot(object: KubeObject, bearers: Bearers, onUnknown: OnUnknown): PublishedSlot | undefined {
  const record = recordIn(object);
  const { status } = object.value;
  if (record === undefined || !isRecord(status)) return undefined;
  const { bearersHash: hash, ...known } = record;
  const { record: _record, ...rest } = status;
  const given = hash === undefined ? {} : bearers;
  return readPublishedSlot({ ...known, name: object.meta.name, status: rest, ...given }, onUnknown);
}

const bearersSchema = publishedSlotSchema.pick({ bearerList: true });

/** Undefined: another version's, which this version cannot read. */
export function readBearers(value: unknown): Bearers | undefined {
  return bearersSchema.safeParse(value).data;
}

export function bearersOf({ bearerList }: Bearers = {}): Bearers {
  return bearerList === undefined ? {} : { bearerList };
}

function bearersHash({ bearerList }: Bearers): { readonly bearersHash?: string } {
  return bearerList === undefined ? {} : { bearersHash: sha256(canonicalJson({ bearerList })).slice(0, 16) };
}
