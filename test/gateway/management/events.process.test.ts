import assert from "node:assert/strict";
import { once } from "node:events";
import { it, mock } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Fastify from "fastify";
import { openEvents } from "../../../src/gateway/management/event-response.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { later } from "../../support/later.ts";
import { until } from "../../support/until.ts";
import { followEvents } from "./event-reader.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

const hasFailed = (round: number) => (data: unknown) =>
  isRecord(data) && isRecord(data["last_error"]) && String(data["last_error"]["message"]).startsWith(`${round} `);

async function publishLong(gateway: TestGateway, round: number): Promise<void> {
  const message = `${round} ${"x".repeat(3_000_000)}`;
  const lastError = { reason: "Exited", message, time: new Date().toISOString() } as const;
  await gateway.publish("primary", { status: { lastError } });
}

it("a reader of events that does not read is dropped alone, after it was told to reconnect, which shows the last of all", async () => {
  await using gateway = await startGateway({ slots: { primary: {} } });
  using slow = await followEvents(gateway.url);
  using quick = await followEvents(gateway.url);
  await Promise.all([slow.find("snapshot"), quick.find("snapshot")]);
  slow.pause();
  // The slow reader has 5 s to read; this test gives it as long as a slow machine takes to send more.
  const { setTimeout: real } = globalThis;
  const patience = mock.method(
    globalThis,
    "setTimeout",
    (act: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
      real(act, ms === 5000 ? 600_000 : ms, ...args),
  );
  using stack = new DisposableStack();
  stack.defer(() => patience.mock.restore());
  // More than sockets hold.
  for (let round = 0; round < 8; round += 1) {
    await publishLong(gateway, round);
    await quick.find("slot", hasFailed(round));
  }
  slow.resume();
  await until("it is dropped", () => slow.isOver());
  assert.ok(patience.mock.calls.some(({ arguments: [, ms] }) => ms === 5000));
  assert.deepEqual([slow.events.at(-1)?.event, slow.events.at(-1)?.data], ["resync", {}]);
  assert.ok(slow.events.length < quick.events.length, "it did not get everything");
  assert.ok(!quick.isOver() && quick.events.every(({ event }) => event !== "resync"));
  using again = await followEvents(gateway.url);
  assert.ok(JSON.stringify(await again.find("snapshot")).includes('"message":"7 x'));
});

it("streams carry a comment every 15 s, by which clients know that they live", async () => {
  mock.timers.enable({ apis: ["setInterval"] });
  try {
    await using gateway = await startGateway({ slots: { primary: {} } });
    using events = await followEvents(gateway.url);
    await events.find("snapshot");
    using models = await followEvents(gateway.url, "/models/sse");
    using log = await followEvents(gateway.url, "/api/slots/primary/logs?follow=1");
    const readers = [events, models, log];
    mock.timers.tick(14_999);
    assert.ok(readers.every((reader) => reader.comments() === 0));
    for (let count = 1; count <= 2; count += 1) {
      mock.timers.tick(count === 1 ? 1 : 15_000);
      await until("a comment", () => readers.every((reader) => reader.comments() === count));
    }
    assert.ok(events.events.every(({ event }) => event !== "message"));
  } finally {
    mock.timers.reset();
  }
});

for (const [when, isEarly] of [
  ["before it began", true],
  ["later", false],
] as const)
  it(`a stream of events knows of a client that left ${when}, also after a collection of garbage`, async () => {
    await using app = Fastify();
    const asked = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<AbortSignal>();
    const client = new AbortController();
    app.get("/", { config: { scope: "read" } }, async (_request, reply) => {
      const closed = once(reply.raw, "close");
      asked.resolve();
      if (isEarly) await closed;
      const stopping = new AbortController().signal;
      const { left } = openEvents(reply, { gate: { mayStill: () => true }, stopping });
      client.abort();
      await closed;
      opened.resolve(left);
      return reply;
    });
    const url = await app.listen({ port: 0, host: "127.0.0.1" });
    const answered = later(fetch(url, { signal: client.signal }).catch(() => undefined));
    await asked.promise;
    if (isEarly) client.abort();
    const left = await opened.promise;
    for (let turn = 0; turn < 3; turn += 1) {
      await new Promise(setImmediate);
      collectGarbage();
    }
    assert.equal(left.aborted, true);
    await answered;
  });
