import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { startGateway, type SlotSketch, type TestGateway } from "../support/gateway.ts";
import { json, sayHello, scriptedEngine, type ScriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { freePorts } from "../support/ports.ts";
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
class Replicas implements AsyncDisposable {
  readonly engines: ScriptedEngine[] = [];
  readonly #open: [ServerResponse, Seen][][] = [];

  static async start(count: number): Promise<Replicas> {
    const replicas = new Replicas();
    for (let ordinal = 0; ordinal < count; ordinal += 1) {
      const open: [ServerResponse, Seen][] = [];
      replicas.#open.push(open);
      replicas.engines.push(await scriptedEngine((response, seen) => void open.push([response, seen])));
    }
    return replicas;
  }

  get processes(): Process[] {
    return this.engines.map(({ port }, ordinal) => replica(ordinal, port));
  }

  /** Requests that each works on. */
  get counts(): number[] {
    return this.#open.map(({ length }) => length);
  }

  get seen(): number[] {
    return this.engines.map(({ seen }) => seen.length);
  }

  answer(ordinal: number): void {
    const next = this.#open[ordinal]?.shift();
    if (next !== undefined) sayHello(...next);
  }

  answerAll(): void {
    for (const [ordinal, open] of this.#open.entries()) while (open.length > 0) this.answer(ordinal);
  }

  /** Of what is under way: which replica has a request with that word. */
  whoHas(word: string): number {
    return this.#open.findIndex((open) => open.some(([, { body }]) => body.includes(word)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const engine of this.engines) await engine[Symbol.asyncDispose]();
  }
}

interface Message {
  readonly role: string;
  readonly content: string;
}

const user = (content: string): Message => ({ role: "user", content });
const chat = (messages: readonly Message[]): { model: string; messages: readonly Message[] } => ({
  model: "primary",
  messages,
});
const say = (gateway: TestGateway, word: string): Promise<Response> =>
  gateway.post("/v1/chat/completions", chat([user(word)]));
const inFlight = (gateway: TestGateway, ordinal: number): number =>
  gateway.demand("primary")?.endpoints?.find((each) => each.ordinal === ordinal)?.inFlight ?? 0;

describe("a slot with several replicas", () => {
  it("gives each request to the replica with the fewest in flight", async () => {
    await using replicas = await Replicas.start(3);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) } });
    const answers: Promise<Response>[] = [];
    for (let count = 1; count <= 6; count += 1) {
      answers.push(say(gateway, `word ${count}`));
      await until("it is there", () => replicas.counts.reduce((sum, each) => sum + each, 0) === count);
    }
    assert.deepEqual(replicas.counts, [2, 2, 2]);
    replicas.answer(1);
    replicas.answer(1);
    await until("two are answered", () =>
      gateway.metric('berth_requests_in_flight{slot="primary"}').then((n) => n === 4),
    );
    answers.push(say(gateway, "seven"));
    await until("it is there", () => replicas.whoHas("seven") === 1);
    replicas.answerAll();
    for (const answer of answers) assert.equal((await answer).status, 200);
  });

  it("serves as many at once as its replicas together, and queues the rest", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes, { max: 2, queue: 1 }) } });
    const answers = Array.from({ length: 5 }, (_, nth) => say(gateway, `word ${nth}`));
    await until("both are full", () => replicas.counts.join() === "2,2");
    await until("one waits", async () => (await gateway.metric('berth_requests_queued{slot="primary"}')) === 1);
    assert.equal((await say(gateway, "too many")).status, 429);
    replicas.answer(1);
    await until("the place that was freed is taken", () => replicas.seen.join() === "2,3");
    replicas.answerAll();
    for (const answer of answers) assert.equal((await answer).status, 200);
  });

  it("gives a conversation back to the replica that has it cached, in every protocol", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) } });
    const turn = async (path: string, body: object, word: string): Promise<number> => {
      const answered = gateway.post(path, body);
      await until("it is there", () => replicas.whoHas(word) >= 0);
      const ordinal = replicas.whoHas(word);
      replicas.answerAll();
      assert.equal((await answered).status, 200);
      return ordinal;
    };
    const words = ["red", "blue"];
    const first = [];
    for (const word of words) first.push(await turn("/v1/chat/completions", chat([user(word)]), word));
    assert.deepEqual(first, [0, 1]);
    // In the other order, so that taking turns would give them to the other replicas.
    for (const [index, word] of ["blue", "red"].entries()) {
      const messages = [user(word), { role: "assistant", content: "hello" }, user(`${word} again`)];
      assert.equal(await turn("/v1/chat/completions", chat(messages), `${word} again`), [1, 0][index], word);
      const body = { ...chat([user(word), { role: "assistant", content: "hello" }, user("more")]), max_tokens: 9 };
      assert.equal(await turn("/v1/messages", body, word), [1, 0][index], `${word} as a message`);
      const { messages: input } = chat([user(word), { role: "assistant", content: "hello" }, user("less")]);
      assert.equal(
        await turn("/v1/responses", { model: "primary", input }, word),
        [1, 0][index],
        `${word} as a response`,
      );
    }
    const text = (word: string): string => `${word} `.repeat(40);
    const begun = [];
    for (const word of words) begun.push(await turn("/v1/completions", { model: "primary", prompt: text(word) }, word));
    for (const [index, word] of words.toReversed().entries())
      assert.equal(
        await turn("/v1/completions", { model: "primary", prompt: `${text(word)} and on` }, word),
        begun.toReversed()[index],
        `${word} as a text`,
      );
  });

  it("gives a conversation to another replica where its own is busy beyond the bound", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) } });
    const answers = [];
    for (const total of [1, 2, 3]) {
      answers.push(say(gateway, "the same"));
      await until("it is there", () => replicas.counts.reduce((sum, each) => sum + each, 0) === total);
    }
    assert.deepEqual(replicas.counts, [2, 1]);
    replicas.answerAll();
    for (const answer of answers) assert.equal((await answer).status, 200);
  });

  it("hides that one replica refuses connections, and sends it no more requests until a status says otherwise", async () => {
    await using replicas = await Replicas.start(2);
    for (const engine of replicas.engines) engine.answer(sayHello);
    await using gateway = await startGateway({
      slots: { primary: slotOf(replicas.processes) },
      // Who waited before a further try would wait for longer than the test.
      gateway: { againAfterMs: [600_000] },
    });
    await replicas.engines[0]?.stop();
    for (const word of ["one", "two", "three"]) assert.equal((await say(gateway, word)).status, 200);
    assert.deepEqual(replicas.seen, [0, 3]);
    await replicas.engines[0]?.restart();
    const [dead, alive] = replicas.processes;
    assert.ok(dead !== undefined && alive !== undefined);
    await gateway.publish("primary", slotOf([{ ...dead, pid: 200 }, alive]));
    for (const word of ["four", "five"]) assert.equal((await say(gateway, word)).status, 200);
    assert.deepEqual(replicas.seen, [1, 4]);
  });

  it("reports the failure of a replica that ends during an answer to that client alone", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) } });
    const answers = ["one", "two"].map((word) => say(gateway, word));
    await until("both are there", () => replicas.counts.join() === "1,1");
    const dies = replicas.whoHas("one");
    await replicas.engines[dies]?.stop();
    assert.equal((await answers[0])?.status, 502);
    const third = say(gateway, "three");
    await until("it is there", () => replicas.whoHas("three") === 1 - dies);
    replicas.answerAll();
    assert.equal((await answers[1])?.status, 200);
    assert.equal((await third).status, 200);
  });

  it("drains one replica: it gets no new request, completes its own, and the operator is notified", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes, { max: 1 }) } });
    const answers = ["one", "two"].map((word) => say(gateway, word));
    await until("both are there", () => replicas.counts.join() === "1,1");
    const [stays, goes] = replicas.processes;
    assert.ok(stays !== undefined && goes !== undefined);
    await gateway.publish("primary", slotOf([stays, { ...goes, drainingSince: new Date().toISOString() }], { max: 1 }));
    await until("the operator hears that it is still at work", () => inFlight(gateway, 1) === 1);
    const seen = gateway.running.seenRevision("primary");
    assert.equal(gateway.demand("primary")?.seenRevision, seen);
    const third = say(gateway, "three");
    await until("it waits", async () => (await gateway.metric('berth_requests_queued{slot="primary"}')) === 1);
    replicas.answer(1);
    await until("the operator hears that it is done", () => inFlight(gateway, 1) === 0);
    assert.equal(replicas.whoHas("three"), -1, "what the drained replica had makes no room elsewhere");
    replicas.answer(0);
    await until("it is there", () => replicas.whoHas("three") === 0);
    replicas.answerAll();
    for (const answer of [...answers, third]) assert.equal((await answer).status, 200);
    assert.deepEqual(
      gateway.demand("primary")?.endpoints?.map(({ role, ordinal }) => [role, ordinal]),
      [["main", 0]],
    );
  });

  it("admits a request where another replica has room, while a draining one is busy", async () => {
    await using replicas = await Replicas.start(2);
    await using gateway = await startGateway({ slots: { primary: slotOf(replicas.processes, { max: 1 }) } });
    const first = say(gateway, "one");
    await until("it is there", () => replicas.whoHas("one") === 0);
    const [goes, stays] = replicas.processes;
    assert.ok(stays !== undefined && goes !== undefined);
    await gateway.publish("primary", slotOf([{ ...goes, drainingSince: new Date().toISOString() }, stays], { max: 1 }));
    const second = say(gateway, "two");
    await until("it is there", () => replicas.whoHas("two") === 1);
    replicas.answerAll();
    for (const answer of [first, second]) assert.equal((await answer).status, 200);
  });

  it("keeps the connections of two engines apart that have the same port at two hosts", async () => {
    await using here = await scriptedEngine((response) => json(response, { at: "here", choices: [] }));
    await using gateway = await startGateway({ slots: { primary: slotOf([replica(0, here.port)]) } });
    assert.match(await (await say(gateway, "one")).text(), /here/);
    // 127.0.0.2 is this machine too, but nobody listens there: a connection kept for 127.0.0.1 must not answer for it.
    await gateway.publish("coder", {
      ...slotOf([replica(0, here.port, { host: "127.0.0.2" })]),
    });
    const response = await gateway.post("/v1/chat/completions", { model: "coder", messages: [user("two")] });
    assert.equal(response.status, 502);
    assert.equal(here.seen.length, 1);
  });

  it("sends each replica its own bearer", async () => {
    await using replicas = await Replicas.start(2);
    for (const engine of replicas.engines) engine.answer(sayHello);
    await using gateway = await startGateway({
      slots: {
        primary: {
          ...slotOf(replicas.processes),
          bearerList: [
            { role: "main", ordinal: 0, bearer: "zero" },
            { role: "main", ordinal: 1, bearer: "one" },
          ],
        },
      },
    });
    for (const word of ["one", "two"]) assert.equal((await say(gateway, word)).status, 200);
    assert.deepEqual(
      replicas.engines.map(({ seen }) => seen[0]?.headers.authorization),
      ["Bearer zero", "Bearer one"],
    );
  });
});

describe("the pages of a slot's replicas", () => {
  const open = async (
    replicas: Replicas,
  ): Promise<{ readonly gateway: TestGateway; readonly page: (browser: string) => Promise<Response> }> => {
    const { first } = await freePorts(1);
    const env = { SVC_ENGINE_PAGES: "primary", SVC_ENGINE_PAGES_PORT: String(first) };
    const gateway = await startGateway({ slots: { primary: slotOf(replicas.processes) }, env });
    const url = `http://127.0.0.1:${first}/upstream/primary/`;
    return { gateway, page: (browser) => fetch(url, { headers: { "user-agent": browser } }) };
  };

  it("are those of every replica, and each browser keeps its own", async () => {
    await using replicas = await Replicas.start(2);
    const { gateway, page } = await open(replicas);
    await using _gateway = gateway;
    const used = async (browser: string): Promise<number> => {
      const before = replicas.seen;
      const answer = page(browser);
      await until("it is there", () => replicas.seen.join() !== before.join());
      const ordinal = replicas.seen.findIndex((count, nth) => count !== before[nth]);
      replicas.answerAll();
      assert.equal((await answer).status, 200);
      return ordinal;
    };
    const browsers = Array.from({ length: 16 }, (_, nth) => `browser ${nth}`);
    const first: number[] = [];
    for (const browser of browsers) first.push(await used(browser));
    assert.deepEqual(
      [...new Set(first)].toSorted((a, b) => a - b),
      [0, 1],
    );
    const again: number[] = [];
    for (const browser of browsers) again.push(await used(browser));
    assert.deepEqual(again, first);
  });

  it("are waited for by the replica's drain", async () => {
    await using replicas = await Replicas.start(2);
    const { gateway, page } = await open(replicas);
    await using _gateway = gateway;
    const answer = page("a browser");
    await until("it is there", () => replicas.counts.join() !== "0,0");
    const ordinal = replicas.counts.indexOf(1);
    await until("the operator is told of it", () => inFlight(gateway, ordinal) === 1);
    const drainingSince = new Date().toISOString();
    const draining = replicas.processes.map((each) => (each.ordinal === ordinal ? { ...each, drainingSince } : each));
    await gateway.publish("primary", slotOf(draining));
    const other = page("a browser");
    await until("the next one goes to the other replica", () => replicas.counts.join() === "1,1");
    assert.equal(inFlight(gateway, ordinal), 1);
    replicas.answerAll();
    assert.deepEqual([(await answer).status, (await other).status], [200, 200]);
    await until("the operator is told of its end", () => inFlight(gateway, ordinal) === 0);
  });
});
