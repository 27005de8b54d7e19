import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { openDockerRuntime } from "../../../src/runtimes/docker/docker.ts";
import { RuntimeUnavailable } from "../../../src/runtimes/runtime-unavailable.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("a daemon that accepts and keeps silent is unavailable for a plain request, and waited for by a stream", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "docker.sock");
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
  server.listen(path);
  await once(server, "listening");
  try {
    const daemon = new Daemon(path, 50);
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
