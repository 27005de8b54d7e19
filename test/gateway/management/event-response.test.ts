import assert from "node:assert/strict";
import { once } from "node:events";
import { it, mock } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Fastify from "fastify";
import { openEvents } from "../../../src/gateway/management/event-response.ts";
import { later } from "../../support/later.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

it("no right is checked again for a stream of events whose client left before it began", async () => {
  await using app = Fastify();
  let looks = 0;
  const mayStill = (): boolean => {
    looks += 1;
    return true;
  };
  const asked = Promise.withResolvers<void>();
  const done = Promise.withResolvers<boolean>();
  app.get("/", { config: { scope: "read" } }, async (_request, reply) => {
    asked.resolve();
    if (!reply.raw.destroyed) await once(reply.raw, "close");
    mock.timers.enable({ apis: ["setInterval"] });
    try {
      const { left } = openEvents(reply, { authenticator: { mayStill }, stopping: new AbortController().signal });
      mock.timers.tick(5000);
      done.resolve(left.aborted);
    } finally {
      mock.timers.reset();
    }
    return reply;
  });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  const client = new AbortController();
  const left = later(assert.rejects(fetch(url, { signal: client.signal })));
  await asked.promise;
  client.abort();
  assert.equal(await done.promise, true);
  assert.equal(looks, 0);
  await left;
});

it("a stream whose client has left is known as such to a reader that listens only later, after a collection of garbage", async () => {
  await using app = Fastify();
  const opened = Promise.withResolvers<AbortSignal>();
  const closed = Promise.withResolvers<undefined>();
  app.get("/", { config: { scope: "read" } }, async (_request, reply) => {
    reply.raw.once("close", () => closed.resolve(undefined));
    const stopping = new AbortController().signal;
    opened.resolve(openEvents(reply, { authenticator: { mayStill: () => true }, stopping }).left);
    return reply;
  });
  const client = new AbortController();
  await fetch(await app.listen({ port: 0, host: "127.0.0.1" }), { signal: client.signal });
  const left = await opened.promise;
  client.abort();
  await closed.promise;
  for (let turn = 0; turn < 3; turn += 1) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  assert.equal(left.aborted, true);
});
