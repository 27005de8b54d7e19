import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { endContainer } from "../../../src/runtimes/docker/lifecycle.ts";
import { say } from "../../doubles/docker-daemon.ts";
import { later } from "../../support/later.ts";
import { until } from "../../support/until.ts";
import { container, daemonOf } from "./fixture.ts";

/** Of a runtime that stays. */
const open = new AbortController().signal;
const kill = "POST /containers/c1/kill";
const isWait = (asked: string): boolean => asked === "POST /containers/c1/wait";

it("a container's end is waited for again when the daemon cuts the wait", async () => {
  let waits = 0;
  let isOver = false;
  let waiting: ServerResponse | undefined;
  await using at = await daemonOf((asked, response, request) => {
    if (isWait(asked)) {
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
  await endContainer(at.daemon, container("c1"), { stopSeconds: 5 }, open);
  assert.deepEqual([waits, at.count(kill)], [2, 1]);
});

it("a container gets one TERM, also where the clock was set back since its start", async () => {
  const signals: (string | null)[] = [];
  let waiting: ServerResponse | undefined;
  await using at = await daemonOf((asked, response, request) => {
    if (isWait(asked)) {
      waiting = response;
      return;
    }
    const signal = new URL(request.url ?? "", "http://docker").searchParams.get("signal");
    signals.push(signal);
    if (signal === "SIGKILL" && waiting !== undefined) say(waiting, 200, { StatusCode: 0 });
    response.writeHead(204).end();
  });
  const StartedAt = new Date(Date.now() + 3_600_000).toISOString();
  // Longer than a young container waits for its next TERM.
  await endContainer(at.daemon, container("c1", { StartedAt }), { stopSeconds: 0.8 }, open);
  assert.deepEqual(signals, ["SIGTERM", "SIGKILL"]);
});

it("a daemon that stops answering while a container is ended is reported at once", async () => {
  await using at = await daemonOf((_asked, _response, request) => void request.socket.destroy());
  const ending = endContainer(at.daemon, container("c1"), { stopSeconds: 600 }, open);
  await assert.rejects(ending, { name: "RuntimeUnavailable" });
});

it("a container that is being ended when the operator ends is left to the next, at once", async () => {
  const waits = new Set<ServerResponse>();
  await using at = await daemonOf((asked, response) => {
    if (!isWait(asked)) {
      response.writeHead(204).end();
      return;
    }
    waits.add(response);
    response.once("close", () => waits.delete(response));
  });
  const closing = new AbortController();
  const ending = later(endContainer(at.daemon, container("c1"), { stopSeconds: 600 }, closing.signal));
  await until("it was told", () => at.count(kill) > 0 && waits.size === 1);
  closing.abort(new Error("the operator ends"));
  await assert.rejects(ending, /the operator ends/);
  await until("nothing is asked of the daemon any more", () => waits.size === 0);
  assert.equal(at.count(kill), 1);
});
