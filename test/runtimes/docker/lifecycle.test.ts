import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import type { Living } from "../../../src/runtimes/docker/inspected.ts";
import { endContainer } from "../../../src/runtimes/docker/lifecycle.ts";
import { say, startDockerDaemon } from "../../doubles/docker-daemon.ts";

/** Long enough ago that it needs TERM but once. */
const StartedAt = "2020-01-01T00:00:00Z";

function running(): Living {
  const State = { Status: "running", Running: true, Paused: false, Restarting: false, OOMKilled: false, Dead: false };
  return { id: "c1", info: { State: { ...State, Pid: 1, ExitCode: 0, Error: "", StartedAt, FinishedAt: StartedAt } } };
}

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
    // It ends a moment after it was told.
    setTimeout(() => {
      isOver = true;
      if (waiting !== undefined) say(waiting, 200, { StatusCode: 0 });
    }, 100);
    response.writeHead(204).end();
  });
  await endContainer(new Daemon(daemon.path), running(), { stopSeconds: 5 });
  assert.equal(waits, 2);
  assert.equal(daemon.asked.filter((what) => what === "POST /containers/c1/kill").length, 1);
});

it("a daemon that goes away while a container is ended is told of, at once", async () => {
  const daemon = await startDockerDaemon((_asked, _response, request) => void request.socket.destroy());
  try {
    await assert.rejects(endContainer(new Daemon(daemon.path), running(), { stopSeconds: 600 }), {
      name: "RuntimeUnavailable",
    });
  } finally {
    await daemon[Symbol.asyncDispose]();
  }
});
