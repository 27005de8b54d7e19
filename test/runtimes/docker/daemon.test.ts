import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { openDockerRuntime } from "../../../src/runtimes/docker/docker.ts";
import { RuntimeUnavailable } from "../../../src/runtimes/runtime-unavailable.ts";
import { startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

it("a daemon that accepts and keeps silent is unavailable for a plain request, and waited for by a stream", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "docker.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
  server.listen(path);
  await once(server, "listening");
  try {
    const daemon = new Daemon(path, { silenceMs: 50 });
    const stream = new AbortController();
    let isOver = false;
    const events = daemon
      .ask((api) => api.getEvents({ abortSignal: stream.signal }), "asAborted")
      .finally(() => (isOver = true));
    const failed = assert.rejects(events, { name: "AbortError" });
    const isUnavailable = (error: unknown): boolean =>
      error instanceof RuntimeUnavailable && error.message.includes("does not answer");
    await assert.rejects(
      daemon.ask((api) => api.listContainers()),
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

it("one lost answer to a look is not waited for as long as what changes something", async () => {
  await using double = await startDockerDaemon((asked, response) => {
    // A DOUBLE that begins an answer and loses the rest: no socket ever falls silent long enough to be missed.
    response.writeHead(200, { "content-type": "application/json" }).write("[");
    const talking = setInterval(() => response.write(" "), 10);
    response.once("close", () => clearInterval(talking));
    assert.match(asked, /^GET /);
  });
  const daemon = new Daemon(double.path, { briefMs: 100 });
  const isLost = (error: unknown): boolean =>
    error instanceof RuntimeUnavailable && error.message.endsWith("does not answer: no word for 0.1 s");
  await assert.rejects(
    daemon.ask((api) => api.listContainers(), "brief"),
    isLost,
  );
  await assert.rejects(
    daemon.find((api) => api.getContainer("c").inspect(), "brief"),
    isLost,
  );
});

it("a stream that does not begin is given up, and its connection with it", async () => {
  const open = new Set<ServerResponse>();
  await using double = await startDockerDaemon((_asked, response) => {
    open.add(response);
    response.once("close", () => open.delete(response));
  });
  const daemon = new Daemon(double.path, { briefMs: 100 });
  await assert.rejects(
    daemon.stream((api, abortSignal) => api.getEvents({ abortSignal }), new AbortController().signal),
    (error) => error instanceof RuntimeUnavailable && error.message.endsWith("no word for 0.1 s"),
  );
  await until("the connection is closed", () => double.asked.length === 1 && open.size === 0);
});

it("a daemon elsewhere, or a DOCKER_HOST that names none, is one that never answers, and says why", async () => {
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
