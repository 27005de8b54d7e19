import { apiVersion, type Kind } from "../../api/names.ts";
import { once, readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import { emptyStatus, publishedRegistrySchema, type PublishedRegistry, type PublishedSlot } from "../../api/status.ts";
import { knownPart } from "../../api/known-part.ts";
import { isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import type { KubeObject } from "../../kubernetes/object.ts";
import { Serial } from "../../lib/serial.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import type { Documents, OpenDocuments } from "../documents.ts";
import type { Publisher } from "../store.ts";
import type { Events } from "./events.ts";
import type { Finalizers } from "./finalizers.ts";
import type { LeaderLease } from "./leadership.ts";
import { collectionOf, fieldManager } from "./names.ts";
import { bearersOf, hasRecord, lastPublishedOf, readBearers, statusOf, type Bearers } from "./slot-record.ts";
import type { ObjectSource } from "./source.ts";

export interface PublisherOptions {
  readonly client: ApiClient;
  readonly lease: LeaderLease;
  readonly source: ObjectSource;
  readonly finalizers: Finalizers;
  readonly events: Events;
  readonly maps: OpenDocuments;
  readonly secrets: OpenDocuments;
  readonly onUnknown: OnUnknown;
  readonly onError: (error: unknown) => void;
}

/** A status that differs from the last one only in figures is written this often at most. */
const figuresMs = 5000;

interface Written {
  readonly essence: string;
  readonly atMs: number;
  /** Its engines have bearers, which stand in the Secret. */
  readonly hasBearers: boolean;
  /** Of the write that is held back. */
  timer?: NodeJS.Timeout;
}

export interface ObjectPublisher extends Publisher, AsyncDisposable {
  readRegistry(): PublishedRegistry | undefined;
}

/** The operator's writer: the status of each object, and ConfigMaps for what has no object. */
export async function openObjectPublisher(options: PublisherOptions): Promise<ObjectPublisher> {
  const { client, lease, source, finalizers, events, onError } = options;
  const report = once(options.onUnknown);
  const nothing = (): void => undefined;
  const readSlot = (value: unknown): PublishedSlot | undefined => readPublishedSlot(value, (what) => report(what));
  /** Slots without an object: built-in ones that no manifest configures. */
  const bare: Documents<PublishedSlot> = await options.maps("slots", { parse: readSlot, onChange: nothing });
  const registry = await options.maps<PublishedRegistry>("registry", {
    parse: (value) => knownPart(publishedRegistrySchema, value),
    onChange: nothing,
  });
  const bearers: Documents<Bearers> = await options.secrets("bearers", { parse: readBearers, onChange: nothing });
  const written = new Map<string, Written>();
  /** A write that was held back must not overtake, or be overtaken by, a later one of its slot. */
  const turns = new Map<string, Serial>();
  /** Of models, upstreams and groups, by kind and name: the identity and what was written of it last. */
  const statuses = new Map<string, string>();

  async function apply(object: KubeObject, slot: PublishedSlot): Promise<void> {
    lease.check();
    await finalizers.add(object);
    await writeBearers(slot);
    await writeStatus(object, "Slot", statusOf(slot));
    events.recordEvent(object, slot);
  }
  async function writeStatus({ meta: { name, uid } }: KubeObject, kind: Kind, status: object): Promise<void> {
    const query = { fieldManager, force: true };
    const body = { apiVersion, kind, metadata: { name, uid }, status };
    const path = `${collectionOf(kind, client.namespace)}/${name}/status`;
    try {
      source.note(kind, await client.request("PATCH", path, { query, body, contentType: patchTypes.apply }));
    } catch (error) {
      // The object is gone, or another object has its name: the source says so in a moment.
      if (!isStatus(error, 404, 409)) throw error;
    }
  }
  async function writeBearers(slot: PublishedSlot): Promise<void> {
    const now = bearersOf(slot);
    const known = bearers.get(slot.name);
    if (Object.keys(now).length === 0) return;
    if (known === undefined || canonicalJson(known) !== canonicalJson(now)) await bearers.put(slot.name, now);
  }
  function inTurn(name: string, work: () => Promise<void>): Promise<void> {
    const turn = turns.get(name) ?? new Serial();
    turns.set(name, turn);
    return turn.run(work);
  }
  const writeSlot = (slot: PublishedSlot): Promise<void> => inTurn(slot.name, () => write(slot));
  async function write(slot: PublishedSlot): Promise<void> {
    lease.check();
    const object = source.object("Slot", slot.name);
    if (object === undefined) {
      forget(slot.name);
      await bare.put(slot.name, slot);
      return;
    }
    const essence = sha256(canonicalJson(essenceOf(slot)));
    const last = written.get(slot.name);
    const waitMs = last === undefined ? 0 : last.atMs + figuresMs - steadyNow();
    clearTimeout(last?.timer);
    if (last?.essence === essence && waitMs > 0 && isWhole(object, last)) {
      last.timer = setTimeout(() => void writeSlot(slot).catch(onError), waitMs + 1);
      last.timer.unref();
      return;
    }
    await apply(object, slot);
    const hasBearers = Object.keys(bearersOf(slot)).length > 0;
    written.set(slot.name, { essence, atMs: steadyNow(), hasBearers });
    if (object.meta.isDeleted && hasEnded(slot)) {
      // A built-in slot stays without its object: from now on the ConfigMap has it.
      await bare.put(slot.name, slot);
      await finalizers.remove(object);
      return;
    }
    if (bare.get(slot.name) !== undefined) await bare.delete(slot.name);
  }
  async function remove(name: string): Promise<void> {
    lease.check();
    forget(name);
    await bare.delete(name);
    await bearers.delete(name);
    const object = source.object("Slot", name);
    if (object === undefined) return;
    if (object.meta.isDeleted) return await finalizers.remove(object);
    // Its deletion has not begun: only what was published of it goes, and its engines may come or be there.
    if (hasRecord(object)) await writeStatus(object, "Slot", emptyStatus);
  }
  /** Both parts that were written are there: without its bearers no gateway reads a slot. */
  function isWhole(object: KubeObject, { hasBearers }: Written): boolean {
    return hasRecord(object) && (!hasBearers || bearers.get(object.meta.name) !== undefined);
  }
  function forget(name: string): void {
    clearTimeout(written.get(name)?.timer);
    written.delete(name);
    finalizers.forget(name);
    events.forget(name);
  }

  return {
    place: "the cluster",
    readSlots() {
      const found = new Map([...bare.values()].map(([name, slot]) => [name, slot]));
      for (const object of source.objects("Slot")) {
        const slot = lastPublishedOf(object, bearers.get(object.meta.name), report);
        if (slot !== undefined) found.set(slot.name, slot);
      }
      return Promise.resolve([...found.values()]);
    },
    writeSlot,
    async deleteSlot(name) {
      await inTurn(name, () => remove(name));
      turns.delete(name);
    },
    missingSlots(names) {
      // Only what can be seen to be missing: a watch that is not open shows an old state.
      if (!source.isCurrent) return [];
      return [...names].filter((name) => {
        const object = source.object("Slot", name);
        if (object === undefined) return bare.get(name) === undefined;
        const last = written.get(name);
        return last !== undefined && !isWhole(object, last);
      });
    },
    hasRegistry: () => registry.get("registry") !== undefined,
    readRegistry: () => registry.get("registry"),
    async writeRegistry(value) {
      lease.check();
      await registry.put("registry", value);
      const { resources } = value;
      const present = new Set(resources.map(({ kind, name }) => `${kind}/${name}`));
      for (const key of statuses.keys()) if (!present.has(key)) statuses.delete(key);
      for (const { kind, name, generation, conditions } of resources) {
        const object = source.object(kind, name);
        const status = { observedGeneration: generation, conditions };
        const [key, text] = [`${kind}/${name}`, `${object?.meta.uid ?? ""} ${JSON.stringify(status)}`];
        if (object === undefined || object.meta.isDeleted || statuses.get(key) === text) continue;
        lease.check();
        await writeStatus(object, kind, status);
        statuses.set(key, text);
      }
    },
    async writeOperator(operator) {
      await lease.publish(operator);
    },
    async [Symbol.asyncDispose]() {
      for (const name of written.keys()) forget(name);
      for (const each of [bare, registry, bearers]) await each[Symbol.asyncDispose]();
    },
  };
}

/** No engine of it is left: its object may go. */
export function hasEnded({ status }: PublishedSlot): boolean {
  return status.state === "offline" && status.processes.length === 0;
}

/** Without the figures that change all the time. */
function essenceOf({ status, revision: _revision, ...rest }: PublishedSlot): unknown {
  const { progress, idleSince: _idle, memory: _memory, fit: _fit, ...lasting } = status;
  return { ...rest, status: { ...lasting, hasProgress: progress !== undefined } };
}
