import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { openDockerRuntime } from "../../../src/runtimes/docker/docker.ts";
import { RuntimeUnavailable } from "../../../src/runtimes/runtime-unavailable.ts";
import { say, type DaemonAnswer } from "../../doubles/docker-daemon.ts";
import { later } from "../../support/later.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { daemonOf } from "./fixture.ts";

const isUnavailable =
  (end: string) =>
  (error: unknown): boolean =>
    error instanceof RuntimeUnavailable && error.message.endsWith(end);
const silent = (seconds: number) => isUnavailable(`does not answer: no answer for ${seconds} s`);

const list = (daemon: Daemon): Promise<unknown> => daemon.call((api) => api.listContainers(), "brief");
const inspect = (daemon: Daemon): Promise<unknown> => daemon.find((api) => api.getContainer("c").inspect(), "brief");
const kill = (daemon: Daemon): Promise<unknown> => daemon.settle((api) => api.getContainer("c").kill());

/** Answers nothing, and keeps the answers that are still awaited. */
function waiting(): { readonly open: Set<ServerResponse>; readonly answer: DaemonAnswer } {
  const open = new Set<ServerResponse>();
  const answer: DaemonAnswer = (_asked, response) => {
    open.add(response);
    response.once("close", () => open.delete(response));
  };
  return { open, answer };
}

describe("a daemon", () => {
  it("that accepts and does not answer is unavailable for a plain request, while a stream waits", async () => {
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
      for (const ask of [list, inspect, kill])
        await assert.rejects(ask(daemon), { name: "RuntimeUnavailable", message: /does not answer/ });
      assert.equal(isOver, false);
      stream.abort();
      await failed;
    } finally {
      for (const socket of sockets) socket.destroy();
      server.close();
    }
  });

  it("whose answer to a query is lost has a shorter time limit than for a change", async () => {
    await using at = await daemonOf(
      (asked, response) => {
        // A DOUBLE that begins an answer and loses the rest: no socket ever falls silent long enough to be missed.
        response.writeHead(200, { "content-type": "application/json" }).write("[");
        const talking = setInterval(() => response.write(" "), 10);
        response.once("close", () => clearInterval(talking));
        assert.match(asked, /^GET /);
      },
      { readTimeoutMs: 100 },
    );
    for (const ask of [list, inspect]) await assert.rejects(ask(at.daemon), silent(0.1));
  });

  it("whose answer is cut before its end has failed, without any time limit of the connection", async () => {
    await using at = await daemonOf(
      (_asked, response) => {
        response.writeHead(201, { "content-length": 100 }).write("{");
        setImmediate(() => response.destroy());
      },
      { callTimeoutMs: 200 },
    );
    await assert.rejects(
      at.daemon.call((api) => api.createContainer({ Image: "x" })),
      RuntimeUnavailable,
    );
  });

  it("that refuses a change because nothing is left to do has done it", async () => {
    let status = 0;
    await using at = await daemonOf((_asked, response) => say(response, status, { message: "nothing to do" }));
    for (status of [404, 409]) await kill(at.daemon);
    status = 500;
    await assert.rejects(kill(at.daemon), { name: "DaemonRefusal", status });
  });

  it("is given up soon during a stop, and is sent no further query", async () => {
    await using at = await daemonOf(() => undefined);
    const start = at.daemon.call((api) => api.getContainer("c").start());
    const asked = [list(at.daemon), start, inspect(at.daemon)].map((answer) => assert.rejects(answer, silent(0.05)));
    await until("they are asked", () => at.double.asked.length === 3);
    at.daemon.limitUnreachableWait(50);
    await Promise.all(asked);
    await assert.rejects(kill(at.daemon), silent(0.05));
    assert.equal(at.double.asked.length, 3);
  });

  it("that answers is still listened to during a stop, and a change may take its time", async () => {
    await using at = await daemonOf((asked, response) => {
      if (asked.startsWith("GET ")) return say(response, 200, []);
      setTimeout(() => response.writeHead(204).end(), 100);
    });
    at.daemon.limitUnreachableWait(10_000);
    assert.deepEqual(await list(at.daemon), []);
    at.daemon.limitUnreachableWait(1);
    await kill(at.daemon);
  });

  it("holds no connection once it is closed, and answers no caller", async () => {
    const { open, answer } = waiting();
    await using at = await daemonOf(answer);
    const asked = assert.rejects(kill(at.daemon), RuntimeUnavailable);
    await until("it is asked", () => open.size === 1);
    at.daemon[Symbol.dispose]();
    await asked;
    await until("the connection is closed", () => open.size === 0);
    await assert.rejects(list(at.daemon), RuntimeUnavailable);
  });

  it("whose stream does not begin is given up, and its connection with it", async () => {
    const { open, answer } = waiting();
    await using at = await daemonOf(answer, { readTimeoutMs: 100 });
    const { signal } = new AbortController();
    // On a busy machine one may be given up before the daemon has read it.
    await until("the daemon is asked", async () => {
      const stream = at.daemon.stream((api, abortSignal) => api.getEvents({ abortSignal }), signal);
      await assert.rejects(stream, isUnavailable("no answer for 0.1 s"));
      return at.double.asked.length > 0;
    });
    await until("the connection is closed", () => open.size === 0);
  });
});

it("a container is ended also where the daemon lists it, and reports no events", async () => {
  await using directory = await tempDir();
  const left = new Set(["c1"]);
  await using at = await daemonOf((asked, response) => {
    if (asked === "GET /events") return say(response, 500, { message: "no events today" });
    if (asked === "GET /containers/json")
      return say(
        response,
        200,
        Array.from(left, (Id) => ({ Id })),
      );
    if (asked === "DELETE /containers/c1") left.delete("c1");
    if (asked !== "GET /containers/c1/json") return say(response, 200, []);
    if (!left.has("c1")) return say(response, 404, { message: "no such container" });
    const Labels = {
      "dev.berth.instance": "i",
      "dev.berth.slot": "primary",
      "dev.berth.role": "main",
      "dev.berth.ordinal": "0",
    };
    say(response, 200, { Id: "c1", Config: { Labels }, State: { Running: true, StartedAt: "2026-01-01T00:00:00Z" } });
  });
  const dockerHost = `unix://${at.double.path}`;
  await using runtime = await openDockerRuntime({ stateDir: directory.path, instance: "i", dockerHost });
  assert.equal(runtime.isAnswering?.(), false);
  await runtime.remove("primary", undefined, { stopSeconds: 0 });
  assert.deepEqual([at.count("POST /containers/c1/kill"), left.size], [1, 0]);
});

it("a remote daemon, or an invalid DOCKER_HOST, counts as unreachable, with the reason", async () => {
  await using directory = await tempDir();
  for (const dockerHost of ["tcp://10.0.0.1:2375", "garbage"]) {
    await using runtime = await openDockerRuntime({ stateDir: directory.path, instance: "i", dockerHost });
    assert.equal(runtime.isAnswering?.(), false);
    const reason = { name: "RuntimeUnavailable", message: new RegExp(`^DOCKER_HOST=${dockerHost}: only a daemon`) };
    await assert.rejects(runtime.observe("primary"), reason);
  }
});
