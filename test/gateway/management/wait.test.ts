import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, Socket } from "node:net";
import { it } from "node:test";
import { waitForOperator, waitUntil } from "../../../src/gateway/management/wait.ts";
import { listen } from "../../support/listen.ts";

const nothing = { [Symbol.dispose]: () => undefined };
const { signal: stopping } = new AbortController();

it("a client that left before the wait began is not waited for", { timeout: 180_000 }, async () => {
  const server = createServer();
  try {
    const port = await listen(server);
    const socket = connect({ host: "127.0.0.1", port });
    socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const client = await new Promise<IncomingMessage>((resolve) => server.once("request", resolve));
    const left = once(client.socket, "close");
    socket.destroy();
    await left;
    // What it would be told of never comes.
    await waitUntil(() => false, { watch: () => nothing, timeoutMs: 600_000, client, stopping });
  } finally {
    server.close();
  }
});

it("a wait ends with its client, and listens to nothing then", async () => {
  const server = createServer();
  try {
    const port = await listen(server);
    const socket = connect({ host: "127.0.0.1", port });
    socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const client = await new Promise<IncomingMessage>((resolve) => server.once("request", resolve));
    let watchers = 0;
    const watch = (): Disposable => {
      watchers += 1;
      return { [Symbol.dispose]: () => void (watchers -= 1) };
    };
    const waiting = waitUntil(() => false, { watch, timeoutMs: 600_000, client, stopping });
    assert.equal(watchers, 1);
    socket.destroy();
    await waiting;
    assert.equal(watchers, 0);
  } finally {
    server.close();
  }
});

it("a wait for the operator ends once none has lived for the time of grace, not before", async () => {
  const socket = new Socket();
  const wait = (graceMs: number): { liveness: { now: "live" | "stale" }; look: () => void; done: () => boolean } => {
    const liveness: { now: "live" | "stale" } = { now: "live" };
    let look = (): void => undefined;
    let isDone = false;
    const watch = (onChange: () => void): Disposable => {
      look = onChange;
      return nothing;
    };
    const client = { socket };
    const options = { watch, timeoutMs: 600_000, client, stopping, liveness: () => liveness.now, graceMs };
    waitForOperator(() => false, options).then(
      () => (isDone = true),
      () => undefined,
    );
    return { liveness, look: () => look(), done: () => isDone };
  };
  const waits = [wait(0), wait(600_000)];
  const looked = async (): Promise<boolean[]> => {
    for (const each of waits) each.look();
    await new Promise((resolve) => setImmediate(resolve));
    return waits.map((each) => each.done());
  };
  assert.deepEqual(await looked(), [false, false]);
  for (const { liveness } of waits) liveness.now = "stale";
  assert.deepEqual(await looked(), [true, false]);
  socket.destroy();
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(await looked(), [true, true]);
});
