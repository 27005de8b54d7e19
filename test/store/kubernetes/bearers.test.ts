import assert from "node:assert/strict";
import { it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { followSlots, openCluster } from "../../../src/store/kubernetes/cluster.ts";
import { openPublishedObjects } from "../../../src/store/kubernetes/published.ts";
import { openEvents } from "../../../src/store/kubernetes/events.ts";
import { openObjectPublisher, type ObjectPublisher } from "../../../src/store/kubernetes/publisher.ts";
import { ObjectSource } from "../../../src/store/kubernetes/source.ts";
import type { PublishedStore } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";
import { published } from "../published-slot.ts";

const path = `/apis/${apiVersion}/namespaces/berth/slots/a`;
const secret = "/api/v1/namespaces/berth/secrets/berth-bearers";
const nothing = (): void => undefined;
const onError = (error: unknown): void => assert.fail(String(error));

function withBearer(revision: number): PublishedSlot {
  const bearer = `bearer-${revision}-${"x".repeat(32)}`;
  return { ...published("a", revision), bearers: { main: bearer }, bearerList: [{ role: "main", ordinal: 0, bearer }] };
}

interface Part<T> extends AsyncDisposable {
  readonly part: T;
}

async function operator(api: ApiDouble): Promise<Part<ObjectPublisher>> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await openCluster(async () => api, nothing));
  const source = stack.use(await ObjectSource.open({ client: api, onError }, nothing));
  const lease = { check: nothing, publish: async () => undefined, [Symbol.asyncDispose]: async () => undefined };
  const finalizers = {
    begin: () => undefined,
    add: async () => undefined,
    forget: nothing,
    remove: async () => undefined,
  };
  const part = stack.use(
    await openObjectPublisher({
      client: api,
      lease,
      source,
      finalizers: { ...finalizers, [Symbol.dispose]: nothing },
      events: openEvents(api, onError),
      maps: cluster.maps,
      secrets: cluster.bearers,
      onUnknown: nothing,
      onError,
    }),
  );
  const owned = stack.move();
  await until("every watch is open", () => source.isCurrent);
  return { part, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function gateway(api: ApiDouble): Promise<Part<PublishedStore>> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await openCluster(async () => api, nothing));
  const slots = stack.use(await followSlots(api, onError));
  const { maps, bearers: secrets } = cluster;
  const onSlots = (listener: (names: readonly string[]) => void): Disposable => slots.watch(listener);
  const options = { client: api, maps, secrets, onUnknown: nothing, onError, slots: slots.watched, onSlots };
  const part = stack.use(await openPublishedObjects(options));
  const owned = stack.move();
  return { part, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function cluster(): ApiDouble {
  const api = new ApiDouble();
  api.put(path, { apiVersion, kind: "Slot", metadata: {}, spec: { model: { default: "m" } } });
  return api;
}

it("a gateway sees that an engine with a bearer has ended", async () => {
  using api = cluster();
  await using writer = await operator(api);
  await using reader = await gateway(api);
  await writer.part.writeSlot(withBearer(1));
  await until("its engine is seen", () => reader.part.slot("a")?.bearers?.main !== undefined);
  await writer.part.writeSlot(published("a", 2));
  await until("its end is seen", () => reader.part.slot("a")?.revision === 2, 15_000);
  assert.equal(reader.part.slot("a")?.bearers, undefined);
});

it("the next operator reads a slot whose bearers are of another version, without them", async () => {
  using api = cluster();
  {
    await using earlier = await operator(api);
    await earlier.part.writeSlot(withBearer(7));
  }
  api.put(secret, undefined);
  await using next = await operator(api);
  const [slot] = await next.part.readSlots();
  assert.deepEqual([slot?.name, slot?.revision, slot?.bearers], ["a", 7, undefined]);
});

it("a Secret of bearers that somebody deletes is missed, and written again at once", async () => {
  using api = cluster();
  await using writer = await operator(api);
  const { part } = writer;
  const slot = withBearer(1);
  await part.writeSlot(slot);
  assert.deepEqual(part.missingSlots(["a"]), []);
  api.put(secret, undefined);
  await until("it is missed", () => part.missingSlots(["a"]).length === 1, 15_000);
  await part.writeSlot(slot);
  assert.notEqual(api.get(secret), undefined);
  assert.deepEqual(part.missingSlots(["a"]), []);
});
