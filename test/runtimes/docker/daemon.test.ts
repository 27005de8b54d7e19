import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { it, mock } from "node:test";
import util from "node:util";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { openDockerRuntime } from "../../../src/runtimes/docker/docker.ts";
import { RuntimeUnavailable } from "../../../src/runtimes/runtime-unavailable.ts";
import { say, startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

it("a daemon that accepts and does not answer is unavailable for a plain request, while a stream waits", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "docker.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
  server.listen(path);
  await once(server, "listening");
  try {
    const daemon = new Daemon(path, { callTimeoutMs: 50 });
    const stream = new AbortController();
    let isOver = false;
    const events = daemon
      .call((api) => api.getEvents({ abortSignal: stream.signal }), "asAborted")
      .finally(() => (isOver = true));
    const failed = later(assert.rejects(events, { name: "AbortError" }));
    const isUnavailable = (error: unknown): boolean =>
      error instanceof RuntimeUnavailable && error.message.includes("does not answer");
    await assert.rejects(
      daemon.call((api) => api.listContainers()),
      isUnavailable,
    );
    await assert.rejects(
      daemon.find((api) => api.getContainer("c").inspect()),
      isUnavailable,
    );
    await assert.rejects(
      daemon.settle((api) => api.getContainer("c").start()),
      isUnavailable,
    );
    assert.equal(isOver, false);
    stream.abort();
    await failed;
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
});

it("a query does not slow down with the number of open connections", async () => {
  await using double = await startDockerDaemon((asked, response) => {
    if (asked.includes("/events")) response.writeHead(200).flushHeaders();
    else say(response, 200, { Components: [] });
  });
  // What the client writes down of each of its requests.
  const inspect = mock.method(util, "inspect");
  using daemon = new Daemon(double.path);
  const closing = new AbortController();
  const streams: unknown[] = [];
  for (let count = 0; count < 5; count++)
    streams.push(await daemon.call((api) => api.getEvents({ abortSignal: closing.signal }), "asAborted"));
  inspect.mock.resetCalls();
  await daemon.isPodman();
  const written = inspect.mock.calls.map(({ result }) => String(result).length);
  inspect.mock.restore();
  assert.ok(written.length > 0 && written.every((length) => length < 2000), written.join(", "));
  closing.abort();
  assert.equal(streams.length, 5);
});

it("a lost answer to a query has a shorter time limit than a lost answer to a change", async () => {
  await using double = await startDockerDaemon((asked, response) => {
    // A DOUBLE that begins an answer and loses the rest: no socket ever falls silent long enough to be missed.
    response.writeHead(200, { "content-type": "application/json" }).write("[");
    const talking = setInterval(() => response.write(" "), 10);
    response.once("close", () => clearInterval(talking));
    assert.match(asked, /^GET /);
  });
  const daemon = new Daemon(double.path, { readTimeoutMs: 100 });
  const isLost = (error: unknown): boolean =>
    error instanceof RuntimeUnavailable && error.message.endsWith("does not answer: no answer for 0.1 s");
  await assert.rejects(
    daemon.call((api) => api.listContainers(), "brief"),
    isLost,
  );
  await assert.rejects(
    daemon.find((api) => api.getContainer("c").inspect(), "brief"),
    isLost,
  );
});

it("an answer that is cut before its end is a failure, without any time limit of the connection", async () => {
  await using double = await startDockerDaemon((_asked, response) => {
    response.writeHead(201, { "content-length": 100 }).write("{");
    setImmediate(() => response.destroy());
  });
  using daemon = new Daemon(double.path, { callTimeoutMs: 200 });
  await assert.rejects(
    daemon.call((api) => api.createContainer({ Image: "x" })),
    RuntimeUnavailable,
  );
});

it("during a stop a query is given up soon, and no further query is sent", async () => {
  await using double = await startDockerDaemon(() => undefined);
  using daemon = new Daemon(double.path);
  const isGivenUp = (error: unknown): boolean =>
    error instanceof RuntimeUnavailable && error.message.endsWith("does not answer: no answer for 0.05 s");
  const asked = [
    daemon.call((api) => api.listContainers(), "brief"),
    daemon.call((api) => api.getContainer("c").start()),
    daemon.find((api) => api.getImage("i").inspect(), "brief"),
  ].map((answer) => assert.rejects(answer, isGivenUp));
  await until("they are asked", () => double.asked.length === 3);
  daemon.limitUnreachableWait(50);
  await Promise.all(asked);
  await assert.rejects(
    daemon.settle((api) => api.getContainer("c").kill()),
    isGivenUp,
  );
  assert.equal(double.asked.length, 3);
});

it("during a stop answers are still received, and a change may take its time", async () => {
  await using double = await startDockerDaemon((asked, response) => {
    if (asked.startsWith("GET ")) return say(response, 200, []);
    setTimeout(() => response.writeHead(204).end(), 100);
  });
  using daemon = new Daemon(double.path);
  daemon.limitUnreachableWait(10_000);
  assert.deepEqual(await daemon.call((api) => api.listContainers(), "brief"), []);
  daemon.limitUnreachableWait(1);
  await daemon.settle((api) => api.getContainer("c").kill());
});

it("closed, it holds no connection, and answers no caller", async () => {
  const open = new Set<ServerResponse>();
  await using double = await startDockerDaemon((_asked, response) => {
    open.add(response);
    response.once("close", () => open.delete(response));
  });
  const daemon = new Daemon(double.path);
  const asked = assert.rejects(
    daemon.call((api) => api.getContainer("c").start()),
    RuntimeUnavailable,
  );
  await until("it is asked", () => open.size === 1);
  daemon[Symbol.dispose]();
  await asked;
  await until("the connection is closed", () => open.size === 0);
  await assert.rejects(
    daemon.call((api) => api.info()),
    RuntimeUnavailable,
  );
});

it("a stream that does not begin is given up, and its connection with it", async () => {
  const open = new Set<ServerResponse>();
  await using double = await startDockerDaemon((_asked, response) => {
    open.add(response);
    response.once("close", () => open.delete(response));
  });
  const daemon = new Daemon(double.path, { readTimeoutMs: 500 });
  await assert.rejects(
    daemon.stream((api, abortSignal) => api.getEvents({ abortSignal }), new AbortController().signal),
    (error) => error instanceof RuntimeUnavailable && error.message.endsWith("no answer for 0.5 s"),
  );
  await until("the connection is closed", () => double.asked.length === 1 && open.size === 0);
});

it("a container is ended also where the daemon lists it, and reports no events", async () => {
  await using directory = await tempDir();
  const left = new Set(["c1"]);
  await using double = await startDockerDaemon((asked, response) => {
    if (asked === "GET /events") return say(response, 500, { message: "no events today" });
    if (asked === "GET /containers/json")
      return say(
        response,
        200,
        [...left].map((Id) => ({ Id })),
      );
    if (asked === "DELETE /containers/c1") left.delete("c1");
    if (asked !== "GET /containers/c1/json") return say(response, 200, []);
    if (!left.has("c1")) return say(response, 404, { message: "no such container" });
    const Labels = { "dev.berth.instance": "i", "dev.berth.slot": "primary", "dev.berth.role": "main" };
    say(response, 200, { Id: "c1", Config: { Labels }, State: { Running: true, StartedAt: "2026-01-01T00:00:00Z" } });
  });
  const runtime = await openDockerRuntime({
    stateDir: directory.path,
    instance: "i",
    dockerHost: `unix://${double.path}`,
  });
  try {
    assert.equal(runtime.isAnswering?.(), false);
    await runtime.remove("primary", undefined, { stopSeconds: 0 });
    assert.ok(double.asked.includes("POST /containers/c1/kill"));
    assert.equal(left.size, 0);
  } finally {
    await runtime[Symbol.asyncDispose]();
  }
});

it("a remote daemon, or an invalid DOCKER_HOST, counts as unreachable, with the reason", async () => {
  await using directory = await tempDir();
  for (const dockerHost of ["tcp://10.0.0.1:2375", "garbage"]) {
    const runtime = await openDockerRuntime({ stateDir: directory.path, instance: "i", dockerHost });
    assert.equal(runtime.isAnswering?.(), false);
    await assert.rejects(runtime.observe("primary"), (error) => {
      return (
        error instanceof RuntimeUnavailable && error.message.startsWith(`DOCKER_HOST=${dockerHost}: only a daemon`)
      );
    });
    await runtime[Symbol.asyncDispose]();
  }
});
