import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { startGateway, type SlotSketch, type TestGateway } from "../support/gateway.ts";
import { json, sayHello, scriptedEngine, type ScriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

type Process = NonNullable<NonNullable<SlotSketch["status"]>["processes"]>[number];

/** One replica as the operator publishes it. */
const replica = (ordinal: number, port: number, more: Partial<Process> = {}): Process => ({
  role: "main",
  ordinal,
  host: "127.0.0.1",
  port,
  endpoint: `http://127.0.0.1:${port}`,
  pid: 100 + ordinal,
  isReady: true,
  ...more,
});

const slotOf = (processes: readonly Process[], concurrency: object = { max: 0 }): SlotSketch => ({
  state: "ready",
  spec: { concurrency },
  status: { processes: [...processes] },
});

/** Engines that answer only when they are told to. */
async function startReplicas(count: number) {
  await using stack = new AsyncDisposableStack();
  const open: [ServerResponse, Seen][][] = [];
  const engines: ScriptedEngine[] = [];
  for (let ordinal = 0; ordinal < count; ordinal += 1) {
    const requests: [ServerResponse, Seen][] = [];
    open.push(requests);
    engines.push(stack.use(await scriptedEngine((response, seen) => void requests.push([response, seen]))));
  }
  const answer = (ordinal: number): void => {
    const next = open[ordinal]?.shift();
    if (next !== undefined) sayHello(...next);
  };
  const owned = stack.move();
  return {
    engines,
    answer,
    processes: engines.map(({ port }, ordinal) => replica(ordinal, port)),
    /** Requests that each works on. */
    counts: () => open.map(({ length }) => length),
    seen: () => engines.map(({ seen }) => seen.length),
    answerAll: () => open.forEach((requests, ordinal) => requests.slice().forEach(() => answer(ordinal))),
    /** Of what is under way: which replica has a request with that word. */
    whoHas: (word: string) => open.findIndex((requests) => requests.some(([, { body }]) => body.includes(word))),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const user = (content: string): object => ({ role: "user", content });
const say = (gateway: TestGateway, word: string): Promise<Response> =>
  gateway.post("/v1/chat/completions", { model: "primary", messages: [user(word)] });
const inFlight = (gateway: TestGateway, ordinal: number): number =>
  gateway.demand("primary")?.endpoints?.find((each) => each.ordinal === ordinal)?.inFlight ?? 0;
const drainingSince = new Date().toISOString();

describe("a slot with several replicas", () => {
  it("serves as many at once as its replicas together, each with its own bearer, and queues the rest", async () => {
    await using replicas = await startReplicas(2);
    const bearerList = ["zero", "one"].map((bearer, ordinal) => ({ role: "main" as const, ordinal, bearer }));
    const primary = { ...slotOf(replicas.processes, { max: 2, queue: 1 }), bearerList };
    await using gateway = await startGateway({ slots: { primary } });
    const answers = Array.from({ length: 5 }, (_, nth) => say(gateway, `word ${nth}`));
    await until("both are full", () => replicas.counts().join() === "2,2");
    await until("one waits", async () => (await gateway.metric('berth_requests_queued{slot="primary"}')) === 1);
    assert.equal((await say(gateway, "too many")).status, 429);
    replicas.answer(1);
    await until("the place that was freed is taken", () => replicas.seen().join() === "2,3");
    replicas.answerAll();
    for (const answer of answers) assert.equal((await answer).status, 200);
    const sent = replicas.engines.map(({ seen }) => seen[0]?.headers.authorization);
    assert.deepEqual(sent, ["Bearer zero", "Bearer one"]);
  });

  it("gives a conversation back to the replica that has it cached, in every protocol", async () => {
    await using replicas = await startReplicas(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) } });
    const words = ["red", "blue"];
    const places = async (path: string, bodyOf: (word: string) => object, order = words): Promise<number[]> => {
      const found: number[] = [];
      for (const word of order) {
        const answered = gateway.post(path, { model: "primary", ...bodyOf(word) });
        await until("it is there", () => replicas.whoHas(word) >= 0);
        found.push(replicas.whoHas(word));
        replicas.answerAll();
        assert.equal((await answered).status, 200);
      }
      return found;
    };
    const later = (word: string): object[] => [user(word), { role: "assistant", content: "hello" }, user("more")];
    const text = (word: string): string => `${word} `.repeat(40);
    assert.deepEqual(await places("/v1/chat/completions", (word) => ({ messages: [user(word)] })), [0, 1]);
    // In the other order, so that taking turns would give them to the other replicas.
    const back = words.toReversed();
    for (const [path, field] of [
      ["/v1/chat/completions", "messages"],
      ["/v1/messages", "messages"],
      ["/v1/responses", "input"],
    ] as const)
      assert.deepEqual(await places(path, (word) => ({ [field]: later(word), max_tokens: 9 }), back), [1, 0], path);
    const begun = await places("/v1/completions", (word) => ({ prompt: text(word) }));
    const next = await places("/v1/completions", (word) => ({ prompt: `${text(word)} and on` }), back);
    assert.deepEqual(next, begun.toReversed());
  });

  it("hides that one replica refuses connections, and sends it no more requests until a status says otherwise", async () => {
    await using replicas = await startReplicas(2);
    for (const engine of replicas.engines) engine.answer(sayHello);
    await using gateway = await startGateway({
      slots: { primary: slotOf(replicas.processes) },
      // Who waited before a further try would wait for longer than the test.
      gateway: { againAfterMs: [600_000] },
    });
    await replicas.engines[0]?.stop();
    for (const word of ["one", "two", "three"]) assert.equal((await say(gateway, word)).status, 200);
    assert.deepEqual(replicas.seen(), [0, 3]);
    await replicas.engines[0]?.restart();
    const [dead, alive] = replicas.processes;
    assert.ok(dead !== undefined && alive !== undefined);
    await gateway.publish("primary", slotOf([{ ...dead, pid: 200 }, alive]));
    for (const word of ["four", "five"]) assert.equal((await say(gateway, word)).status, 200);
    assert.deepEqual(replicas.seen(), [1, 4]);
  });

  it("drains one replica: it gets no new request, completes its own, and the operator is notified", async () => {
    await using replicas = await startReplicas(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes, { max: 1 }) } });
    const answers = ["one", "two"].map((word) => say(gateway, word));
    await until("both are there", () => replicas.counts().join() === "1,1");
    const [stays, goes] = replicas.processes;
    assert.ok(stays !== undefined && goes !== undefined);
    await gateway.publish("primary", slotOf([stays, { ...goes, drainingSince }], { max: 1 }));
    const seen = gateway.running.seenRevision("primary");
    // First: an earlier demand says that it is at work, too.
    await until("the operator hears that it was seen", () => gateway.demand("primary")?.seenRevision === seen);
    assert.equal(inFlight(gateway, 1), 1, "the operator hears that it is still at work");
    const third = say(gateway, "three");
    await until("it waits", async () => (await gateway.metric('berth_requests_queued{slot="primary"}')) === 1);
    replicas.answer(1);
    await until("the operator hears that it is done", () => inFlight(gateway, 1) === 0);
    assert.equal(replicas.whoHas("three"), -1, "what the drained replica had makes no room elsewhere");
    replicas.answer(0);
    await until("it is there", () => replicas.whoHas("three") === 0);
    replicas.answerAll();
    for (const answer of [...answers, third]) assert.equal((await answer).status, 200);
    const left = gateway.demand("primary")?.endpoints?.map(({ role, ordinal }) => [role, ordinal]);
    assert.deepEqual(left, [["main", 0]]);
  });

  it("keeps the connections of two engines apart that have the same port at two hosts", async () => {
    await using here = await scriptedEngine((response) => json(response, { at: "here", choices: [] }));
    await using gateway = await startGateway({ slots: { primary: slotOf([replica(0, here.port)]) } });
    assert.match(await (await say(gateway, "one")).text(), /here/);
    // 127.0.0.2 is this machine too, but nobody listens there: a connection kept for 127.0.0.1 must not answer for it.
    await gateway.publish("coder", slotOf([replica(0, here.port, { host: "127.0.0.2" })]));
    const response = await gateway.post("/v1/chat/completions", { model: "coder", messages: [user("two")] });
    assert.equal(response.status, 502);
    assert.equal(here.seen.length, 1);
  });
});
