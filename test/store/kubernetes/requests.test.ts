import assert from "node:assert/strict";
import { it } from "node:test";
import { apiVersion } from "../../../src/api/names.ts";
import type { RequestKind } from "../../../src/api/status.ts";
import { ApiError } from "../../../src/kubernetes/api-error.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { Subscribers } from "../../../src/lib/subscribers.ts";
import { openCluster } from "../../../src/store/kubernetes/cluster.ts";
import { openRequests } from "../../../src/store/kubernetes/requests.ts";
import { ObjectSource } from "../../../src/store/kubernetes/source.ts";
import type { RequestStore } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

const path = `/apis/${apiVersion}/namespaces/berth/slots/a`;
const spec = { model: { default: "m", parallel: 1 } };
const nothing = (): void => undefined;

function annotate(api: ApiDouble, annotations: Readonly<Record<string, string | undefined>>): void {
  const before = api.get(path);
  const metadata = isRecord(before?.["metadata"]) ? before["metadata"] : {};
  const all = { ...Object(metadata["annotations"]), ...annotations };
  const kept = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  api.put(path, { spec, ...before, apiVersion, kind: "Slot", metadata: { ...metadata, annotations: kept } });
}

interface Operator extends AsyncDisposable {
  readonly requests: RequestStore;
  readonly errors: readonly string[];
  /** The kinds of the requests in force. */
  readonly kinds: () => readonly RequestKind[];
}

async function operator(api: ApiDouble): Promise<Operator> {
  await using stack = new AsyncDisposableStack();
  const errors: string[] = [];
  const onError = (error: unknown): void => void errors.push(String(error));
  const cluster = stack.use(await openCluster(async () => api, nothing));
  const changed = new Subscribers<[names: readonly string[]]>();
  const options = { client: api, onError };
  const source = stack.use(await ObjectSource.open(options, (names) => changed.notify(names)));
  const slots = {
    get: (name: string) => source.object("Slot", name),
    note: (answer: unknown) => source.note("Slot", answer),
    watch: (onChange: (names: readonly string[]) => void) => changed.add(onChange),
  };
  const names = (): readonly string[] => source.objects("Slot").map(({ meta }) => meta.name);
  const requests = stack.use(
    await openRequests(api, slots, cluster.maps, { names, onBadText: (_object, error) => onError(error), onError }),
  );
  await until("every watch is open", () => source.isCurrent);
  const owned = stack.move();
  const kinds = (): readonly RequestKind[] => requests.list("a").map(({ kind }) => kind);
  return { requests, errors, kinds, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

it("a person's swap holds until it is over, whatever is published meanwhile, and also for the next operator", async () => {
  using api = new ApiDouble();
  annotate(api, { "berth.dev/swap-model": "other" });
  let token = "";
  {
    await using first = await operator(api);
    await until("it is accepted", () => first.kinds().length === 1);
    const [swap] = first.requests.list("a");
    assert.partialDeepStrictEqual(swap, { kind: "swap-model", model: "other", specModel: "m" });
    token = swap?.token ?? "";
    api.put(path, { ...api.get(path), status: { handledRequests: { "swap-model": token } } });
    await until("the status is seen", () => first.kinds().length === 1);
  }
  await using next = await operator(api);
  assert.deepEqual(
    next.requests.list("a").map((request) => request.token),
    [token],
  );
  await next.requests.remove("a", "swap-model", token);
  assert.deepEqual(next.kinds(), []);
});

it("a person's restart, load or unload that is over acts no more, also where the status is lost", async () => {
  using api = new ApiDouble();
  annotate(api, { "berth.dev/restart": "1", "berth.dev/load": "1", "berth.dev/unload": "1" });
  {
    await using first = await operator(api);
    await until("they are accepted", () => first.kinds().length === 3);
    for (const { kind, token } of first.requests.list("a")) await first.requests.remove("a", kind, token);
    assert.deepEqual(first.kinds(), []);
  }
  api.put(path, { ...api.get(path), status: {} });
  await using next = await operator(api);
  annotate(api, { "berth.dev/load": "2" });
  await until("another word acts again", () => next.kinds().length === 1);
  assert.deepEqual(next.kinds(), ["load"]);
});

it("a swap for a generation that the object has left is not obeyed, and is said with both numbers", async () => {
  using api = new ApiDouble();
  const generation = (number: number): void => {
    const metadata = api.get(path)?.["metadata"];
    api.put(path, { ...api.get(path), metadata: { ...Object(metadata), generation: number } });
  };
  annotate(api, { "berth.dev/swap-model": "other", "berth.dev/swap-model-generation": "3" });
  generation(4);
  await using site = await operator(api);
  annotate(api, { "berth.dev/restart": "1" });
  await until("the other request is accepted", () => site.kinds().length > 0);
  assert.deepEqual(site.kinds(), ["restart"]);
  const why = "is no request: it is for generation 3, and the object has 4";
  const said = `BadRequestText: the annotation berth.dev/swap-model of slots.berth.dev/a ${why}`;
  assert.deepEqual(site.errors, [said]);
  annotate(api, { "berth.dev/swap-model-generation": "4" });
  await until("it is accepted", () => site.kinds().length === 2);
  // What is accepted holds whatever changes later.
  generation(5);
  annotate(api, { "berth.dev/load": "1" });
  await until("a later request is accepted", () => site.kinds().length === 3);
  assert.deepEqual(site.errors, [said]);
});

it("a swap ends with the annotation, and with a reset by the API", async () => {
  using api = new ApiDouble();
  await using site = await operator(api);
  annotate(api, { "berth.dev/swap-model": "other" });
  await until("it is accepted", () => site.kinds().length === 1);
  annotate(api, { "berth.dev/swap-model": undefined });
  await until("it is over", () => site.kinds().length === 0);
  await until("nothing is left of it", () => !JSON.stringify(api.get(path)).includes("berth.dev/accepted"));
  annotate(api, { "berth.dev/swap-model": "other" });
  await until("it is accepted again", () => site.kinds().length === 1);
  await site.requests.remove("a", "swap-model");
  assert.deepEqual(site.kinds(), []);
});

it("a request of the API takes the place of a person's", async () => {
  using api = new ApiDouble();
  await using site = await operator(api);
  annotate(api, { "berth.dev/swap-model": "other" });
  await until("it is accepted", () => site.kinds().length === 1);
  const [swap] = site.requests.list("a");
  assert.ok(swap !== undefined);
  await site.requests.put({ ...swap, token: "api", model: "third" });
  const models = (): readonly unknown[] => site.requests.list("a").map(({ model }) => model);
  assert.deepEqual(models(), ["third"]);
  await until("nothing is left of the person's", () => !JSON.stringify(api.get(path)).includes("berth.dev/accepted"));
  assert.deepEqual(models(), ["third"]);
});

it("a bad text is said once, also where the API server refuses a write of the same pass", async () => {
  using api = new ApiDouble();
  await using site = await operator(api);
  const failures = (): number => site.errors.filter((each) => each.includes("etcd is away")).length;
  const fail = (method: string): void => {
    if (method === "PATCH") throw new ApiError(500, "InternalError", "etcd is away");
  };
  api.before = fail;
  annotate(api, { "berth.dev/retsart": "1", "berth.dev/swap-model": "no model!", "berth.dev/load": "1" });
  await until("the write is refused", () => failures() === 1);
  assert.deepEqual(site.kinds(), []);
  api.before = nothing;
  await until("it is accepted", () => site.kinds().length === 1);
  api.before = fail;
  annotate(api, { "berth.dev/restart": "1" });
  await until("the next write is refused", () => failures() === 2);
  api.before = nothing;
  await until("it is accepted too", () => site.kinds().length === 2);
  annotate(api, { "berth.dev/unload": "1" });
  await until("another pass is over", () => site.kinds().includes("unload"));
  assert.equal(site.errors.length - failures(), 2, site.errors.join("\n"));
});

it("a text that names no model, and an annotation that names no request, are said once, with their place", async () => {
  using api = new ApiDouble();
  await using site = await operator(api);
  annotate(api, { "berth.dev/swap-model": "no model!", "berth.dev/load": "1", "berth.dev/retsart": "1" });
  await until("the other text is accepted", () => site.kinds().length === 1);
  annotate(api, { "berth.dev/load": "2" });
  await until("the next text is accepted", () => site.requests.list("a").length === 1);
  const place = "the annotation berth.dev/swap-model of slots.berth.dev/a";
  assert.deepEqual(site.errors, [
    "BadRequestText: the annotation berth.dev/retsart of slots.berth.dev/a is no request; did you mean berth.dev/restart?",
    `BadRequestText: ${place} is no request: "no model!" is not a model's name`,
  ]);
});
