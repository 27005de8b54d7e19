import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";
import { answerOf, ask, failureOf, openProvider, site, status, type Ask } from "./fixture.ts";

describe("a provider with maxConcurrent", () => {
  it("gets no more at once; others wait, and beyond the queue are refused", async () => {
    await using at = await site({ maxConcurrent: 2 });
    at.double.fail({ kind: "hang" }, { kind: "hang" });
    const all = Array.from({ length: 2 + 64 + 1 }, () => at.ask());
    const refused = await failureOf(all.at(-1) ?? assert.fail());
    assert.deepEqual([refused.code, refused.status], ["slot.overloaded", 429]);
    assert.equal(refused.message, "upstream acme and its queue are full");
    assert.match(refused.headers["retry-after"] ?? "", /^[1-9]\d?$/);
    await until("two are there", () => at.double.posts.length === 2);
    assert.deepEqual([at.provider.queue.inside, at.provider.queue.waiting], [2, 64]);
    all[0]?.leave();
    await answerOf(all[2] ?? assert.fail());
    all[1]?.leave();
    await Promise.all(all.slice(3, -1).map(answerOf));
    assert.deepEqual([at.provider.queue.inside, at.provider.queue.waiting], [0, 0]);
  });

  it("serves its clients in turns", async () => {
    await using at = await site({ maxConcurrent: 1 });
    at.double.fail({ kind: "hang" });
    const asked = (client: string, nth: number): Ask =>
      at.ask({ client, body: [Buffer.from(`{"model":"gpt-double","messages":[],"by":"${client}${nth}"}`)] });
    const first = asked("many", 0);
    await until("it is there", () => at.double.posts.length === 1);
    const many = [1, 2, 3].map((nth) => asked("many", nth));
    const few = asked("few", 1);
    assert.deepEqual(
      [many[2], few].map((each) => each?.position),
      [4, 2],
    );
    first.leave();
    await Promise.all([...many, few].map(answerOf));
    const order = at.double.posts.map(({ body }) => /(many|few)\d/.exec(body)?.[0]);
    assert.deepEqual(order, ["many0", "many1", "few1", "many2", "many3"]);
  });

  it("keeps the place of a stream that has begun, when the queue is full", async () => {
    await using at = await site({ maxConcurrent: 1 });
    at.double.fail({ kind: "hang" });
    const first = at.ask({ client: "many" });
    await until("it is there", () => at.double.posts.length === 1);
    const waiting = Array.from({ length: 64 }, (_, nth) => at.ask({ client: "many", hasBegun: nth === 63 }));
    const few = at.ask({ client: "few" });
    assert.equal((await failureOf(waiting[62] ?? assert.fail())).code, "slot.overloaded");
    first.leave();
    await Promise.all([few, ...waiting.filter((_, nth) => nth !== 62)].map(answerOf));
  });
});

describe("a stored body", () => {
  const pieces = Array.from({ length: 60 }, (_, index) => `${index} `.repeat(20_000));
  const whole = pieces.join("");
  async function* read(): AsyncGenerator<Buffer> {
    for (const piece of pieces) yield Buffer.from(piece);
  }
  const body = { sizeBytes: whole.length, read };

  it("goes out with its length", async () => {
    await using at = await site();
    await answerOf(at.ask({ body }));
    const [post] = at.double.posts;
    assert.equal(post?.headers["content-length"], String(whole.length));
    assert.ok(post.body === whole);
  });

  it("is sent again, from its start, like any other body", async () => {
    await using nobody = openProvider({ baseUrl: `http://127.0.0.1:${await freePort()}/v1` });
    const { code, message } = await failureOf(ask(nobody.provider, { body }));
    const unreachable = "upstream acme cannot be reached (ECONNREFUSED)";
    assert.deepEqual([code, message], ["dispatch.upstream_unavailable", unreachable], "its address is not shown");
    assert.deepEqual(nobody.outcomes, ["unreachable", "retry", "unreachable"]);
    await using at = await site();
    at.double.fail(status(503));
    await answerOf(at.ask({ body }));
    assert.deepEqual(at.outcomes, ["503", "retry", "200"]);
    assert.ok(at.double.posts.length === 2 && at.double.posts.every((post) => post.body === whole));
  });

  it("that cannot be read says nothing about the provider", async () => {
    await using at = await site();
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from("begun");
      throw Object.assign(new Error("the disk is broken"), { code: "EIO" });
    }
    const { code } = await failureOf(at.ask({ body: { sizeBytes: 9, read: broken } }));
    assert.equal(code, "system.internal");
    assert.deepEqual(at.outcomes, ["aborted"]);
  });

  it("is read no further when the client leaves", async () => {
    await using at = await site();
    const never = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    let hasGoneOn = false;
    async function* slow(): AsyncGenerator<Buffer> {
      try {
        yield Buffer.from("begun");
        await never.promise;
        yield Buffer.from("more");
        hasGoneOn = true;
      } finally {
        ended.resolve();
      }
    }
    const asked = at.ask({ body: { sizeBytes: 9, read: slow } });
    await until("it has begun", () => at.double.openConnections === 1);
    asked.leave();
    never.resolve();
    await ended.promise;
    assert.deepEqual([asked.ends, hasGoneOn, at.double.posts.length], [0, false, 0]);
  });
});

describe("a client that leaves", () => {
  it("ends the provider's work, before its answer and within a stream", async () => {
    await using at = await site({}, { double: { tokenMs: 20 } });
    at.double.fail({ kind: "hang" });
    const waiting = at.ask();
    await until("it is there", () => at.double.posts.length === 1);
    waiting.leave();
    const reading = at.ask({ body: [Buffer.from('{"stream":true}')] });
    await until("it has begun", () => reading.chunks.length > 0);
    reading.leave();
    await until("the provider notices", () => at.double.posts.every(({ response }) => response.destroyed));
    assert.deepEqual([waiting.ends, reading.ends], [0, 0], "no event follows");
    assert.deepEqual([at.provider.queue.inside, at.outcomes], [0, ["aborted", "aborted"]]);
  });

  it("takes no place, before its turn or at its turn", async () => {
    await using at = await site({ maxConcurrent: 1 });
    const all = Array.from({ length: 4 }, () => at.ask());
    // The first was let in, and has not begun. Leaving twice is leaving once.
    for (const nth of [1, 0, 2, 2]) all[nth]?.leave();
    await answerOf(all[3] ?? assert.fail());
    assert.deepEqual(
      all.map(({ ends }) => ends),
      [0, 0, 0, 1],
    );
    assert.equal(at.double.posts.length, 1);
    assert.deepEqual([at.provider.queue.inside, at.provider.queue.waiting], [0, 0]);
  });

  it("is not served where it leaves while the connection is opened", async () => {
    await using at = await site();
    const asked = at.ask();
    // The request is on its way; its connection is not open before the next turn of the event loop.
    for (let step = 0; step < 10; step++) await Promise.resolve();
    asked.leave();
    await answerOf(at.ask());
    assert.deepEqual([at.double.posts.length, asked.ends], [1, 0]);
  });

  it("is not served where it leaves between two tries", async () => {
    await using at = await site({}, { backoffMs: 3000 });
    at.double.fail(status(503));
    const asked = at.ask();
    await until("it waits", () => at.outcomes.includes("retry"));
    asked.leave();
    await Promise.all([at.provider.retire(), at.provider.retire()]);
    assert.equal(at.double.posts.length, 1);
  });
});

it("a slow reader slows the provider down", async () => {
  await using at = await site();
  const body = "x".repeat(20_000_000);
  at.double.fail(status(200, { "content-type": "text/plain" }, body));
  const asked = at.ask();
  asked.pause();
  await until("the answer has begun", () => asked.head !== undefined);
  for (let turn = 0; turn < 50; turn++) await nextTurn();
  const response = at.double.posts[0]?.response ?? assert.fail();
  assert.deepEqual([response.writableFinished, asked.chunks.length], [false, 0]);
  asked.resume();
  assert.equal(await answerOf(asked), body);
});
