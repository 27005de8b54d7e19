import assert from "node:assert/strict";
import { pbkdf2 } from "node:crypto";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { CacheSync } from "../../../src/gateway/routing/cache-sync.ts";
import { buildIndex } from "../../../src/gateway/routing/index.ts";
import type { ModelRequest, Target } from "../../../src/gateway/routing/resolve.ts";
import { writeJsonNow } from "../../../src/lib/atomic-file.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, publishedSlot, type SlotSketch, startGateway } from "../../support/gateway.ts";
import { restOf, withoutComments } from "../../support/held-stream.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { helloChunks, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const messages = [{ role: "user", content: "hi" }];
const ask = (model: string): object => ({ model, messages });
const quick = { gateway: { commentTimes: { firstMs: 50, everyMs: 50 } } };
interface State {
  liveness: OperatorLiveness;
  isSettled: boolean;
  slots: Readonly<Record<string, SlotSketch>>;
}

/** A wait for what an operator publishes, and that state, which a test changes. */
function syncOf(first: Partial<State> = {}, holdMs = 60_000) {
  const state: State = { liveness: "absent", isSettled: false, slots: {}, ...first };
  const source = {
    slots: () => Object.entries(state.slots).map(([name, sketch]) => publishedSlot(name, sketch, 1)),
    registry: () => ({ schema: 1 as const, models: [modelRecord("known")], upstreams: [], resources: [] }),
  };
  const sync = new CacheSync({
    index: () => buildIndex(source, new Map()),
    inFlight: () => 0,
    published: { operator: () => state, operatorLiveness: () => state.liveness },
    holdMs,
  });
  return { sync, state };
}

/** What a target that is waited for, or the failure of the wait, is in a few words. */
async function heard(waited: Promise<Target>): Promise<unknown> {
  const outcome = await waited.then(
    (target) => () => target,
    (error: unknown) => () => {
      throw error;
    },
  );
  return told(outcome);
}

const lasting = new AbortController().signal;

/** What a target or a failure is in a few words; undefined while nobody knows. */
function told(outcome: () => Target | undefined): unknown {
  try {
    const target = outcome();
    return target?.kind === "slot" ? target.slot.name : target?.kind;
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return error.code;
  }
}

describe("the meaning of a model", () => {
  const names = ["primary", "coder", "known", "nonsense"];
  const meanings = (sync: CacheSync): unknown[] => names.map((model) => told(() => sync.resolve({ model })));

  it("is unknown until a live operator has published every slot, apart from slots that it has published", () => {
    for (const [liveness, isSettled] of [
      ["absent", false],
      ["live", false],
      ["stale", true],
      ["unproven", true],
    ] as const) {
      const { sync, state } = syncOf({ liveness, isSettled });
      assert.deepEqual(meanings(sync), [undefined, undefined, undefined, undefined], liveness);
      state.slots = { primary: {} };
      assert.deepEqual(meanings(sync), ["primary", undefined, undefined, undefined], liveness);
      Object.assign(state, { liveness: "live", isSettled: true });
      assert.deepEqual(meanings(sync), ["primary", "model.not_found", "model.not_loaded", "model.not_found"]);
    }
  });

  it("stays known where the operator ends, and is unknown again while a new one reads everything", () => {
    const { sync, state } = syncOf({ liveness: "live", isSettled: true });
    const known = ["primary", "model.not_found", "model.not_loaded", "model.not_found"];
    assert.deepEqual(meanings(sync), known);
    Object.assign(state, { liveness: "stale", isSettled: false });
    assert.deepEqual(meanings(sync), known);
    state.liveness = "live";
    assert.equal(meanings(sync)[3], undefined);
  });

  it("is told to each request that waits", async () => {
    const { sync, state } = syncOf();
    const leaving = new AbortController();
    const wait = (model: string, signal = lasting) => heard(sync.wait({ model }, signal));
    const [coder, primary, nonsense] = [wait("coder"), wait("primary", leaving.signal), wait("nonsense")];
    assert.equal(sync.waiting, 3);
    leaving.abort(new ApiError("dispatch.invalid_request"));
    assert.equal(await primary, "dispatch.invalid_request");
    Object.assign(state, { liveness: "live", slots: { coder: {} } });
    sync.refresh();
    assert.deepEqual([await coder, sync.waiting], ["coder", 1]);
    state.isSettled = true;
    sync.refresh();
    assert.deepEqual([await nonsense, sync.waiting], ["model.not_found", 0]);
  });

  it("is the error of a wait when its time is over, at once where there is none, and of a stop", async () => {
    const requests: readonly (readonly [request: ModelRequest, slot: string])[] = [
      [{ model: "primary:tiny" }, "primary:tiny"],
      [{ model: "sdxl", fixedSlot: { slot: "img" } }, "img"],
    ];
    for (const [request, slot] of requests) {
      for (const holdMs of [10, 0]) {
        const waited = syncOf({}, holdMs).sync.wait(request, lasting);
        const { code, details, headers } = await rejectionOf(waited, ApiError);
        assert.deepEqual(
          [code, details, headers],
          ["slot.not_ready", { slot, state: "offline", reason: "NotPublished" }, { "retry-after": "2" }],
        );
      }
    }
    const { sync } = syncOf();
    const waiting = heard(sync.wait({ model: "primary" }, lasting));
    sync.close(new ApiError("system.overloaded"));
    assert.equal(await waiting, "system.overloaded");
  });
});

describe("a request that arrives before the operator has published all slots", () => {
  it("gets comments on the wait in its stream, and then on the slot's", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ operator: "none", ...quick });
    const response = await gateway.post("/v1/chat/completions", { ...ask("primary"), stream: true });
    assert.equal(response.status, 200);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    assert.match(String(first?.value), /^: waiting slot=unknown state=offline waited=\d+s\n\n/);
    await gateway.publish("primary", { state: "starting" });
    let text = "";
    await until("it hears of the slot", async () => {
      text += (await reader?.read())?.value ?? "";
      return text.includes("state=starting");
    });
    await gateway.publish("primary", { port: engine.port });
    text += await restOf(reader);
    assert.equal(withoutComments(text), helloChunks.join("").replaceAll("engine-model", "primary"));
    assert.match(engine.seen[0]?.body ?? "", /"engine-model"/, "the engine's own name is known by then");
    const [later, nonsense] = ["coder", "nonsense"].map((name) => gateway.post("/v1/chat/completions", ask(name)));
    await gateway.publishOperator({ isSettled: false });
    await gateway.publish("coder", { port: engine.port, status: { model: { ref: "c", origin: "spec" } } });
    assert.equal((await later)?.status, 200);
    await gateway.publishRegistry({ models: [modelRecord("c")] });
    await gateway.publishOperator();
    assert.equal((await nonsense)?.status, 404);
  });

  it("continues once a provider has listed its model, also without an operator", async () => {
    const listed = Promise.withResolvers<void>();
    await using provider = await scriptedEngine(async (response, { method }) => {
      if (method === "GET") await listed.promise;
      const answer = method === "GET" ? { data: [{ id: "gpt-double" }] } : { model: "gpt-double", choices: [] };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    const spec = upstreamSpecSchema.parse({ baseUrl: `http://127.0.0.1:${provider.port}/v1`, discover: {} });
    const registry = { upstreams: [{ name: "acme", spec }] };
    await using gateway = await startGateway({ operator: "none", registry });
    const answered = gateway.post("/v1/chat/completions", ask("gpt-double"), { signal: AbortSignal.timeout(180_000) });
    await until("it waits", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 1);
    listed.resolve();
    assert.equal((await answered).status, 200);
  });

  it("is forgotten when its client leaves, and refused when the gateway stops", async () => {
    // No comment, which would begin the stream: its refusal would be an event then.
    const commentTimes = { firstMs: 600_000, everyMs: 600_000 };
    await using gateway = await startGateway({ operator: "none", gateway: { commentTimes } });
    const leaving = new AbortController();
    const left = gateway.post("/v1/chat/completions", ask("primary"), { signal: leaving.signal });
    const waiting = [ask("primary"), { ...ask("other"), stream: true }];
    const answers = waiting.map((body) => gateway.post("/v1/chat/completions", body));
    const held = (): Promise<number | undefined> => gateway.metric('berth_requests_held{slot="none"}');
    await until("all wait", async () => (await held()) === 3);
    leaving.abort();
    await assert.rejects(left);
    const line = 'berth_requests_total{route="/v1/chat/completions",slot="none",code="499"}';
    await until("it is counted", async () => (await gateway.metric(line)) === 1);
    assert.equal(await held(), 2);
    const closed = gateway.running.close({ drainSeconds: 60 });
    for (const each of answers) assert.equal((await envelopeOf(await each)).error.code, "system.overloaded");
    await closed;
  });

  it("waits while the file of a published slot is missing, under any name that could be the slot's", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { coder: { port: engine.port } }, operator: { slotCount: 1 } });
    assert.equal((await gateway.post("/v1/chat/completions", ask("coder"))).status, 200);
    assert.equal((await gateway.post("/v1/chat/completions", ask("nonsense"))).status, 404);
    await rm(join(gateway.stateDir, "slots", "coder.json"));
    await until(
      "the slot is gone",
      async () => (await fetch(new URL("/api/slots/coder", gateway.running.url))).status === 503,
    );
    const answered = gateway.post("/v1/chat/completions", ask("coder"));
    const nonsense = gateway.post("/v1/chat/completions", ask("nonsense"));
    await until("both wait", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 2);
    await gateway.publish("coder", { port: engine.port });
    assert.deepEqual([(await answered).status, (await nonsense).status], [200, 404]);
  });
});

/** Keeps Node's pool of threads busy, so that each step of others through it takes a while. */
function busyPool(): Disposable {
  let isOver = false;
  const work = (): void => {
    if (!isOver) pbkdf2("a", "b", 5000, 32, "sha256", work);
  };
  for (let index = 0; index < 4; index++) work();
  return { [Symbol.dispose]: () => void (isOver = true) };
}

// An operator may publish at any moment while a gateway starts, and nothing more for hours.
it("sees a change at every step of its start", async () => {
  using _busy = busyPool();
  for (let steps = 0; steps < 8; steps++) {
    let publishing: Promise<void> | undefined;
    await using gateway = await startGateway({
      onStart: (stateDir) => {
        publishing = (async () => {
          for (let step = 0; step < steps; step++) await stat(stateDir);
          const slot = publishedSlot("primary", { port: 9 }, 1000);
          writeJsonNow(join(stateDir, "slots/primary.json"), JSON.stringify(slot));
        })();
      },
    });
    await publishing;
    const isSeen = (): boolean => gateway.running.seenRevision("primary") === 1000;
    await until(`the gateway sees what was published ${steps} steps into its start`, isSeen);
  }
});
