import { apiVersion } from "../../../src/api/names.ts";
import { followSlots, openCluster } from "../../../src/store/kubernetes/cluster.ts";
import { openEvents } from "../../../src/store/kubernetes/events.ts";
import { openPublishedObjects } from "../../../src/store/kubernetes/published.ts";
import { openObjectPublisher, type ObjectPublisher } from "../../../src/store/kubernetes/publisher.ts";
import { ObjectSource } from "../../../src/store/kubernetes/source.ts";
import type { PublishedStore } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

export const slots = `/apis/${apiVersion}/namespaces/berth/slots`;
export const spec = { model: { default: "m" } };
export const nothing = (): void => undefined;

/** An API server that holds the Slot `a`. */
export function withSlot(metadata: object = {}, more: object = {}): ApiDouble {
  const api = new ApiDouble();
  api.put(`${slots}/a`, { apiVersion, kind: "Slot", metadata, spec, ...more });
  return api;
}

interface Operator extends AsyncDisposable {
  readonly source: ObjectSource;
  readonly publisher: ObjectPublisher;
}

/** The parts of an operator that leads for good, and has no finalizers. */
export async function openOperator(api: ApiDouble, onError: (error: unknown) => void = nothing): Promise<Operator> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await openCluster(async () => api, nothing));
  const source = stack.use(await ObjectSource.open({ client: api, onError }, nothing));
  const finalizers = {
    begin: () => undefined,
    add: async () => undefined,
    forget: nothing,
    remove: async () => undefined,
  };
  const publisher = stack.use(
    await openObjectPublisher({
      client: api,
      lease: { check: nothing, publish: async () => undefined, [Symbol.asyncDispose]: async () => undefined },
      source,
      finalizers: { ...finalizers, [Symbol.dispose]: nothing },
      events: openEvents(api, onError),
      maps: cluster.maps,
      secrets: cluster.bearers,
      onUnknown: nothing,
      onError,
    }),
  );
  await until("every watch is open", () => source.isCurrent);
  const owned = stack.move();
  return { source, publisher, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** A gateway's view of what the operator publishes. */
export async function openView(
  api: ApiDouble,
  onError: (error: unknown) => void,
): Promise<AsyncDisposable & { readonly view: PublishedStore }> {
  await using stack = new AsyncDisposableStack();
  const { maps, bearers: secrets } = stack.use(await openCluster(async () => api, nothing));
  const followed = stack.use(await followSlots(api, onError));
  const view = stack.use(
    await openPublishedObjects({
      client: api,
      maps,
      secrets,
      onUnknown: nothing,
      onError,
      slots: followed.watched,
      onSlots: (listener) => followed.watch(listener),
    }),
  );
  const owned = stack.move();
  return { view, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
