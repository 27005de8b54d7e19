import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import type { Living } from "../../../src/runtimes/docker/inspected.ts";
import { endContainer } from "../../../src/runtimes/docker/lifecycle.ts";
import { say, startDockerDaemon } from "../../doubles/docker-daemon.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

/** Long enough ago that it needs TERM but once. */
const StartedAt = "2020-01-01T00:00:00Z";

function running(startedAt = StartedAt): Living {
  const State = { Status: "running", Running: true, Paused: false, Restarting: false, OOMKilled: false, Dead: false };
  return {
    id: "c1",
    info: { State: { ...State, Pid: 1, ExitCode: 0, Error: "", StartedAt: startedAt, FinishedAt: StartedAt } },
  };
}

/** Of a runtime that stays. */
const open = new AbortController().signal;

it("a container's end is waited for again when the daemon cuts the wait", async () => {
  let waits = 0;
  let isOver = false;
  let waiting: ServerResponse | undefined;
  await using daemon = await startDockerDaemon((asked, response, request) => {
    if (asked === "POST /containers/c1/wait") {
      waits += 1;
      if (waits === 1) request.socket.destroy();
      else if (isOver) say(response, 200, { StatusCode: 0 });
      else waiting = response;
      return;
    }
    isOver = true;
    if (waiting !== undefined) say(waiting, 200, { StatusCode: 0 });
    response.writeHead(204).end();
  });
  await endContainer(new Daemon(daemon.path), running(), { stopSeconds: 5 }, open);
  assert.equal(waits, 2);
  assert.equal(daemon.asked.filter((what) => what === "POST /containers/c1/kill").length, 1);
});

it("a container gets one TERM, also where the clock was set back since its start", async () => {
  const signals: (string | null)[] = [];
  let waiting: ServerResponse | undefined;
  await using daemon = await startDockerDaemon((asked, response, request) => {
    if (asked === "POST /containers/c1/wait") {
      waiting = response;
      return;
    }
    const signal = new URL(request.url ?? "", "http://docker").searchParams.get("signal");
    signals.push(signal);
    if (signal === "SIGKILL" && waiting !== undefined) say(waiting, 200, { StatusCode: 0 });
    response.writeHead(204).end();
  });
  const ahead = new Date(Date.now() + 3_600_000).toISOString();
  // Longer than a young container waits for its next TERM.
  await endContainer(new Daemon(daemon.path), running(ahead), { stopSeconds: 0.8 }, open);
  assert.deepEqual(signals, ["SIGTERM", "SIGKILL"]);
});

it("a daemon that stops answering while a container is ended is reported at once", async () => {
  const daemon = await startDockerDaemon((_asked, _response, request) => void request.socket.destroy());
  try {
    await assert.rejects(endContainer(new Daemon(daemon.path), running(), { stopSeconds: 600 }, open), {
      name: "RuntimeUnavailable",
    });
  } finally {
    await daemon[Symbol.asyncDispose]();
  }
});

it(
  "a container that is being ended when the operator ends is left to the next, at once",
  { timeout: 180_000 },
  async () => {
    const waits = new Set<ServerResponse>();
    await using daemon = await startDockerDaemon((asked, response) => {
      if (asked !== "POST /containers/c1/wait") {
        response.writeHead(204).end();
        return;
      }
      waits.add(response);
      response.once("close", () => waits.delete(response));
    });
    const closing = new AbortController();
    const ending = later(endContainer(new Daemon(daemon.path), running(), { stopSeconds: 600 }, closing.signal));
    await until("it was told", () => daemon.asked.includes("POST /containers/c1/kill") && waits.size === 1);
    closing.abort(new Error("the operator ends"));
    await assert.rejects(ending, /the operator ends/);
    await until("nothing is asked of the daemon any more", () => waits.size === 0);
    assert.equal(daemon.asked.filter((what) => what === "POST /containers/c1/kill").length, 1);
  },
);
