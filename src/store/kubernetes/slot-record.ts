import { readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import { publishedSlotSchema, type PublishedSlot } from "../../api/status.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import type { KubeObject } from "../../lib/kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";

/** What processes require of gateways: secrets, and so in a Secret and not in a status that every reader is shown. */
export type Bearers = Pick<PublishedSlot, "bearers" | "bearerList">;

/**
 * A published slot as the status of its object: the slot's own status, and beside it the record of everything else.
 * `bearersHash` ties it to the version of its bearers, which come by another watch.
 */
export function statusOf(slot: PublishedSlot): Readonly<Record<string, unknown>> {
  const { name: _name, status, bearers, bearerList, ...record } = slot;
  return { ...status, record: { ...record, ...bearersHash({ bearers, bearerList }) } };
}

export function hasRecord({ value }: KubeObject): boolean {
  return isRecord(value["status"]) && isRecord(value["status"]["record"]);
}

/** Of a Slot's object what its operator reads after it has taken over: its own memory has the rest of the status. */
export function withoutState({ status, ...rest }: KubeObject["value"]): KubeObject["value"] {
  if (!isRecord(status)) return rest;
  const { handledRequests } = status;
  return { ...rest, status: { handledRequests, ...(isRecord(status["record"]) ? { record: {} } : {}) } };
}

/** Undefined for an object without a record, or where its bearers are of another version: they come in a moment. */
export function publishedOf(
  { meta, value }: KubeObject,
  bearers: Bearers | undefined,
  onUnknown: OnUnknown,
): PublishedSlot | undefined {
  const { status } = value;
  if (!isRecord(status) || !isRecord(status["record"])) return undefined;
  const { record, ...rest } = status;
  if (!isRecord(record)) return undefined;
  const { bearersHash: hash, ...known } = record;
  const found = bearersOf(bearers);
  if (hash !== bearersHash(found).bearersHash) return undefined;
  return readPublishedSlot(
    { ...known, name: meta.name, status: rest, ...(hash === undefined ? {} : found) },
    onUnknown,
  );
}

const bearersSchema = publishedSlotSchema.pick({ bearers: true, bearerList: true });

/** Undefined: another version's, which this version cannot read. */
export function readBearers(value: unknown): Bearers | undefined {
  return bearersSchema.safeParse(value).data;
}

export function bearersOf({ bearers, bearerList }: Bearers = {}): Bearers {
  return {
    ...(bearers === undefined ? {} : { bearers }),
    ...(bearerList === undefined ? {} : { bearerList }),
  };
}

function bearersHash(given: Bearers): { readonly bearersHash?: string } {
  const { bearers, bearerList } = given;
  if (bearers === undefined && bearerList === undefined) return {};
  return { bearersHash: sha256(canonicalJson(bearersOf(given))).slice(0, 16) };
}
