import { nameIn, once, readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import { knownPart } from "../../api/known-part.ts";
import {
  publishedRegistrySchema,
  type PublishedOperator,
  type PublishedRegistry,
  type PublishedSlot,
} from "../../api/status.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { ListWatch } from "../../kubernetes/list-watch.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { Documents, OpenDocuments } from "../documents.ts";
import { LivenessWatch } from "../state/liveness.ts";
import type { PublishedChange, PublishedStore } from "../store.ts";
import { follow } from "./followed.ts";
import { recordOf } from "./leadership.ts";
import { leasesPath, operatorLease } from "./names.ts";
import { hasRecord, publishedOf, readBearers, type Bearers } from "./slot-record.ts";

export interface PublishedOptions {
  readonly client: ApiClient;
  readonly maps: OpenDocuments;
  readonly secrets: OpenDocuments;
  readonly onUnknown: OnUnknown;
  readonly onError: (error: unknown) => void;
  /** The Slots of the namespace, and a call at each change of them. */
  readonly slots: ListWatch;
  readonly onSlots: (listener: (names: readonly string[]) => void) => Disposable;
}

const emptyRegistry: PublishedRegistry = { schema: 1, models: [], upstreams: [], resources: [] };

/** Reads what the operator publishes in a cluster, and follows it. Needs no operator: an absent state is an empty one. */
export async function openPublishedObjects(options: PublishedOptions): Promise<PublishedStore> {
  const { client, slots, onError } = options;
  const report = once(options.onUnknown);
  const subscribers = new Subscribers<[change: PublishedChange]>();
  const liveness = new LivenessWatch();
  const read = new Map<string, PublishedSlot>();
  /** The Slots were listed after the operator said that it has published all of them. */
  let isComplete = false;
  await using stack = new AsyncDisposableStack();
  const changed = (names: readonly string[]): void => {
    const slots = names.filter(refresh);
    if (slots.length > 0) subscribers.notify({ slots, registry: false, operator: false });
  };
  const bare: Documents<PublishedSlot> = stack.use(
    await options.maps("slots", {
      parse: (value) => readPublishedSlot(value, (what) => report(`slot ${nameIn(value)}: ${what}`)),
      onChange: changed,
    }),
  );
  const bearers: Documents<Bearers> = stack.use(
    await options.secrets("bearers", { parse: readBearers, onChange: changed }),
  );
  const registry = stack.use(
    await options.maps<PublishedRegistry>("registry", {
      parse: (value) => knownPart(publishedRegistrySchema, value, { onUnknown: (what) => report(`registry: ${what}`) }),
      onChange: () => subscribers.notify({ slots: [], registry: true, operator: false }),
    }),
  );
  /** False: the slot is unchanged. A slot whose bearers are still to come stays as it was. */
  function refresh(name: string): boolean {
    const object = slots.get(name);
    const before = read.get(name);
    const now =
      object !== undefined && hasRecord(object)
        ? (publishedOf(object, bearers.get(name), (what) => report(`slot ${name}: ${what}`)) ?? before)
        : bare.get(name);
    if (now === undefined) return read.delete(name);
    read.set(name, now);
    return now !== before;
  }
  const lease: { watch?: ListWatch } = {};
  const found = (): PublishedOperator | undefined => {
    const object = lease.watch?.get(operatorLease);
    return object === undefined ? undefined : recordOf(object.meta);
  };
  const hasEverySlot = ({ slotCount }: PublishedOperator): boolean => isComplete && read.size >= slotCount;
  const operator = (): PublishedOperator | undefined => {
    const record = found();
    return record?.isSettled === true && !hasEverySlot(record) ? { ...record, isSettled: false } : record;
  };
  const note = (): void => {
    const record = found();
    liveness.note(new Map(record === undefined ? [] : [["operator", record]]));
  };
  lease.watch = stack.use(
    await follow({
      client,
      path: leasesPath(client.namespace),
      fieldSelector: `metadata.name=${operatorLease}`,
      onError,
      onChange: () => {
        note();
        void complete().then(() => subscribers.notify({ slots: [], registry: false, operator: true }));
      },
    }),
  );
  /** Never rejects: without an answer the operator's next heartbeat causes another attempt. */
  async function complete(): Promise<void> {
    if (isComplete || found()?.isSettled !== true) return;
    try {
      await slots.resync();
      isComplete = true;
    } catch (error) {
      onError(error);
    }
  }
  stack.use(options.onSlots(changed));
  for (const { meta } of slots.values()) refresh(meta.name);
  for (const [name] of bare.values()) refresh(name);
  note();
  await complete();
  const owned = stack.move();
  return {
    slots: () => [...read.values()],
    slot: (name) => read.get(name),
    registry: () => registry.get("registry") ?? emptyRegistry,
    refreshRegistry: () => registry.refresh().catch(onError),
    operator,
    operatorLiveness: () => {
      const record = operator();
      return record === undefined ? "absent" : liveness.of("operator", record);
    },
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
