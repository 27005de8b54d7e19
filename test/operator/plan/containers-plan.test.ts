import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Observed } from "../../../src/api/workload.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import type { Decision } from "../../../src/operator/plan/decision.ts";
import { cold, epoch, input, later, observed, published, warm } from "../fixture.ts";

const containerId = "0123456789abcdef";
const container: Partial<Observed> = { id: { containerId } };
const process = {
  role: "main",
  ordinal: 0,
  host: "127.0.0.1",
  port: 8081,
  endpoint: "http://127.0.0.1:8081",
  containerId,
  isReady: true,
  startedAt: epoch.toISOString(),
} as const;
const ready = published({ runtime: "docker", processes: [process] });
const absent = { role: "main", state: "absent", message: "the image x is not on this machine" } as const;
const fetching = {
  role: "main",
  state: "fetching",
  message: "the image x is being fetched",
  progress: { bytesDone: 1 },
} as const;
const gone = {
  role: "main",
  state: "failed",
  reason: "ImageNotFound",
  message: "the image x does not exist",
  isTerminal: true,
} as const;
const cut = {
  role: "main",
  state: "failed",
  reason: "PullFailed",
  message: "the pull of x was cut",
  isTerminal: false,
} as const;
const runtimeError = "the Docker daemon does not answer";
const serving: Omit<Partial<SlotInput>, "spec"> = {
  before: ready,
  observed: [observed(container)],
  health: { main: warm },
};

function short(given: SlotInput): string {
  const { check, state, conditionSet, reason, steps, failure } = plan(given) satisfies Decision;
  const failed = failure === undefined ? "" : failure.isTerminal ? " fails for good" : " fails";
  return `${check}: ${state} ${conditionSet} ${reason} [${steps.map((step) => step.do).join(", ")}]${failed}`;
}

const table: readonly [string, SlotInput, string][] = [
  [
    "nothing runs, the image is not here",
    input({ unprepared: absent }),
    "unprepared: pulling progressing Pulling [fetch]",
  ],
  [
    "the next image is not here, the old engine serves",
    input({ ...serving, unprepared: absent, observed: [observed({ ...container, hash: "old" })] }),
    "unprepared: ready loadedProgressing Pulling [fetch]",
  ],
  ["nothing runs, the image comes", input({ unprepared: fetching }), "unprepared: pulling progressing Pulling [wait]"],
  [
    "the next image comes while the old engine serves",
    input({ ...serving, unprepared: fetching, observed: [observed({ ...container, hash: "old" })] }),
    "unprepared: ready loadedProgressing Pulling [wait]",
  ],
  ["the image cannot be had", input({ unprepared: gone }), "unprepared: error stalled ImageNotFound []"],
  ["the pull was cut", input({ unprepared: cut }), "unprepared: error retrying PullFailed [wait]"],
  [
    "the next image cannot be had, the old engine serves",
    input({ ...serving, unprepared: gone, observed: [observed({ ...container, hash: "old" })] }),
    "unprepared: ready loadedStalled ImageNotFound []",
  ],
  [
    "the next pull was cut, the old engine serves",
    input({ ...serving, unprepared: cut, observed: [observed({ ...container, hash: "old" })] }),
    "unprepared: ready loadedRetrying PullFailed [wait]",
  ],
  [
    "an engine that still loads is let go of for one whose image comes",
    input({
      before: published({ state: "warming", processes: [process] }),
      observed: [observed({ ...container, hash: "old" })],
      health: { main: cold },
      unprepared: fetching,
    }),
    "mustRestart: unloading unloading Changed [stop, start]",
  ],
  [
    "a daemon that is silent: what answers stays in service",
    input({ ...serving, runtimeError }),
    "runtimeUnreachable: ready loadedRetrying RuntimeUnavailable [wait]",
  ],
  [
    "a daemon that is silent: what does not answer is not ready, and nothing is stopped",
    input({ ...serving, runtimeError, health: { main: { ...warm, isHealthy: false, failures: 1 } } }),
    "runtimeUnreachable: error retrying RuntimeUnavailable [wait]",
  ],
  [
    "a daemon that is silent: nothing is started, and nothing has failed",
    input({ runtimeError }),
    "runtimeUnreachable: error retrying RuntimeUnavailable [wait]",
  ],
  [
    "a daemon that is silent is no matter to a slot that is not wanted",
    input({ runtimeError, spec: { enabled: false } }),
    "notWanted: offline offline Disabled []",
  ],
  [
    "a paused container is resumed in place",
    input({
      ...serving,
      observed: [observed({ ...container, isListening: false, drift: { reason: "Paused", message: "p" } })],
    }),
    "drifted: ready loadedRetrying Paused [repair]",
  ],
  [
    "a renamed container gets its name back",
    input({ ...serving, observed: [observed({ ...container, drift: { reason: "Renamed", message: "r" } })] }),
    "drifted: ready loadedRetrying Renamed [repair]",
  ],
  [
    "a container that somebody restarted has failed, and is not stopped",
    input({ ...serving, observed: [observed({ ...container, startedAt: later(90) })], health: { main: cold } }),
    "restarted: error retrying Restarted [] fails",
  ],
  [
    "a port that a stranger holds is tried again",
    input({
      before: published({ state: "starting", processes: [] }),
      observed: [
        observed({
          ...container,
          phase: "exited",
          exit: { reason: "PortInUse", message: "another program listens on port 8081", at: epoch.toISOString() },
        }),
      ],
    }),
    "crashed: error retrying PortInUse [stop] fails",
  ],
];

describe("the plan for containers", () => {
  for (const [name, given, expected] of table) it(name, () => assert.equal(short(given), expected));
});
