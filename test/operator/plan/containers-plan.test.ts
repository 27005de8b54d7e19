import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Observed } from "../../../src/api/workload.ts";
import { cold, epoch, input, later, noDemand, observed, published, warm } from "../fixture.ts";
import { decided } from "./told.ts";

const at = epoch.toISOString();
const place = { role: "main", ordinal: 0, host: "127.0.0.1", port: 8081 } as const;
const containerId = "0123456789abcdef";
const container = { ...place, endpoint: "http://127.0.0.1:8081", containerId, isReady: true, startedAt: at };

function running(more: Partial<Observed> = {}) {
  const before = published({ runtime: "docker", processes: [container] });
  return { before, observed: [observed({ id: { containerId }, ...more })], health: { main: warm } };
}
/** The engine that serves is of an earlier spec. */
const earlier = running({ hash: "old" });
const portInUse = { reason: "PortInUse", message: "another program listens on port 8081", at } as const;

const absent = { role: "main", state: "absent", message: "x is not here" } as const;
const fetching = { role: "main", state: "fetching", message: "x is fetched", progress: { bytesDone: 1 } } as const;
const failed = { role: "main", state: "failed", message: "x is refused" } as const;
const gone = { ...failed, reason: "ImageNotFound", isTerminal: true } as const;
const cut = { ...failed, reason: "PullFailed", isTerminal: false } as const;
const runtimeError = "the daemon is silent";
const silent = "RuntimeUnavailable: the daemon is silent";

/** An engine that a runtime has refused, which fetches what it needs after the start. */
function refused(reason: NonNullable<Observed["exit"]>["reason"]): Parameters<typeof input>[0] {
  const exit = { reason, message: "refused", at } as const;
  const before = published({ state: "pulling" });
  return { pullsAfterStart: true, before, observed: [observed({ phase: "exited", startedAt: later(90), exit })] };
}
const ended = "stop main (remove the exited process); fails; again in 0 s";

/** A slot whose model is not on this machine: an absence that can be mended is no refusal. */
const model = { ref: "m", files: [{ source: "hf://owner/repo/m.gguf" }], isOpen: false };
const workloads = { reason: "NotFetched", message: "m is not on this machine yet" } as const;
const idle = { load: false, reason: "ScaledToZero", message: "no request needs it" } as const;

const keeping = { model: { default: "tiny", keepContext: {} } };
const unloading = "notWanted: unloading leaving Unloaded: unloaded by request at 2026-01-01T00:00:01.000Z";
const change = { at, from: "ready", to: "unloading", reason: "Unloaded", message: "asked" } as const;
const unload = { schema: 1, slot: "primary", kind: "unload", token: "t", specHash: "spec-1" } as const;
const unloaded = {
  ...running(),
  spec: keeping,
  before: published({ state: "unloading", transitions: [change] }),
  requests: [{ ...unload, requestedAt: later(1).toISOString() }],
};
const busy = { ...noDemand, inFlight: 1, lastRequestAt: epoch, lastByteAt: epoch };

type Rows = Readonly<Record<string, readonly [given: Parameters<typeof input>[0], said: string, done?: string]>>;
const tables: Readonly<Record<string, Rows>> = {
  "the plan for what is fetched first": {
    "an image is not here": [
      { unprepared: absent },
      "unprepared: pulling progressing Pulling: x is not here",
      "fetch main; again in 0.02 s",
    ],
    "an image comes": [
      { unprepared: fetching },
      "unprepared: pulling progressing Pulling: x is fetched",
      "wait; again in 5 s",
    ],
    "an image cannot be had": [{ unprepared: gone }, "unprepared: error stalled ImageNotFound: x is refused"],
    "a pull was cut": [
      { unprepared: cut },
      "unprepared: error retrying PullFailed: x is refused",
      "wait; again in 5 s",
    ],
    "the next image is not here, the old engine serves": [
      { ...earlier, unprepared: absent },
      "unprepared: ready progressing Pulling: x is not here",
      "fetch main; again in 0.02 s",
    ],
    "the next image comes while the old engine serves": [
      { ...earlier, unprepared: fetching },
      "unprepared: ready progressing Pulling: x is fetched",
      "wait; again in 5 s",
    ],
    "the next image cannot be had, the old engine serves": [
      { ...earlier, unprepared: gone },
      "unprepared: ready stalled ImageNotFound: x is refused",
    ],
    "the next pull was cut, the old engine serves": [
      { ...earlier, unprepared: cut },
      "unprepared: ready retrying PullFailed: x is refused",
      "wait; again in 5 s",
    ],
    "an engine that still loads is let go of for one whose image comes": [
      {
        ...earlier,
        before: published({ state: "warming", processes: [container] }),
        health: { main: cold },
        unprepared: fetching,
      },
      "mustRestart: unloading leaving Changed: the file of its model, its image or its program has changed",
      "stop main, start main 8081 /bin/llama-server --port 8081",
    ],
    "a model is not here": [
      { workloads, unprepared: { ...absent, model } },
      "unprepared: pulling progressing Pulling: x is not here",
      "fetch main; again in 0.02 s",
    ],
    "a model cannot be had": [
      { workloads, unprepared: { ...failed, reason: "Unauthorized", isTerminal: true, model } },
      "unprepared: error stalled Unauthorized: x is refused",
    ],
    "the next model comes while the old engine serves": [
      { ...running(), workloads, unprepared: { ...fetching, model } },
      "unprepared: ready progressing Pulling: x is fetched",
      "wait; again in 5 s",
    ],
    "a slot without requests is offline, not failed: the next request has its model fetched": [
      { workloads, want: idle },
      "notWanted: offline off ScaledToZero: no request needs it",
    ],
  },
  "the plan while a runtime does not answer": {
    "what answers stays in service": [
      { ...running(), runtimeError },
      `runtimeUnreachable: ready retrying ${silent}`,
      "wait (the daemon is silent; it must answer first); again in 1 s",
    ],
    "what does not answer is not ready, and nothing is stopped": [
      { ...running(), runtimeError, health: { main: { ...warm, isHealthy: false, failures: 1 } } },
      `runtimeUnreachable: error retrying ${silent}`,
      "wait (the daemon is silent; it must answer first); again in 1 s",
    ],
    "nothing is started, and nothing has failed": [
      { runtimeError },
      `runtimeUnreachable: error retrying ${silent}`,
      "wait (the daemon is silent; it must answer first); again in 1 s",
    ],
    "a slot that is not wanted is offline": [
      { runtimeError, spec: { enabled: false } },
      "notWanted: offline off Disabled: enabled is false",
    ],
  },
  "the plan for a container": {
    "that somebody paused: it is resumed in place": [
      running({ isListening: false, drift: { reason: "Paused", message: "p" } }),
      "drifted: ready progressing Paused: p",
      "repair main; again in 0 s",
    ],
    "that somebody restarted: it has failed, and is not stopped": [
      { ...running({ startedAt: later(90) }), health: { main: cold } },
      "restarted: error retrying Restarted: it was restarted from outside",
      "fails after long; again in 0 s",
    ],
    "whose port a stranger holds: it is tried again": [
      {
        ...running({ phase: "exited", exit: portInUse }),
        before: published({ state: "starting", processes: [] }),
        health: {},
      },
      "crashed: error retrying PortInUse: another program listens on port 8081",
      "stop main (remove the exited process); fails after long; again in 0 s",
    ],
  },
  "the plan for an engine whose runtime fetches after the start": {
    "waits for an image that may still come": [
      refused("ImageNotFound"),
      "crashed: error retrying ImageNotFound: refused",
      ended,
    ],
    "waits for a Secret that may still be right": [
      refused("Unauthorized"),
      "crashed: error retrying Unauthorized: refused",
      ended,
    ],
    "waits for a Secret that may still come": [refused("NoSecret"), "crashed: error retrying NoSecret: refused", ended],
    "leaves a program that cannot be started to a person": [
      refused("StartFailed"),
      "crashed: error stalled StartFailed: refused",
      ended.replace("fails", "fails for good"),
    ],
  },
  "the plan to save a stopped engine's context": {
    "announces it": [unloaded, unloading, "stop main savesContext"],
    "not where requests are cut": [{ ...unloaded, demand: busy }, unloading, "stop main"],
    "not where the engine's socket is lost": [
      { ...unloaded, health: { main: { ...warm, lostAt: epoch } } },
      unloading,
      "stop main",
    ],
    "not where the engine fails its probes": [
      { ...unloaded, health: { main: { ...warm, failures: 1 } } },
      unloading,
      "stop main",
    ],
    "not where the slot keeps no context": [
      { ...unloaded, spec: { model: { default: "tiny" } } },
      unloading,
      "stop main",
    ],
  },
};

for (const [title, rows] of Object.entries(tables)) {
  describe(title, () => {
    for (const [name, [given, said, done = ""]] of Object.entries(rows))
      it(name, () => assert.deepEqual(decided(input(given)), [said, done]));
  });
}
