import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { PublishedSlot, SlotRequest } from "../../../src/api/status.ts";
import type { Observed } from "../../../src/api/workload.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { cold, epoch, input, later, noDemand, observed, published, warm, workload } from "../fixture.ts";
import { decided } from "./told.ts";

const start = "start main 8081 /bin/llama-server --port 8081";
/** A slot that is ready and serves. */
const serving = { before: published(), observed: [observed()], health: { main: warm } };
const disabled: SlotSpecInput = { enabled: false };
const onDemand: SlotSpecInput = { model: { default: "tiny" }, load: "onDemand" };
const minute: SlotSpecInput = { model: { default: "tiny" }, probe: { startupSeconds: 60 } };
const exit = { reason: "Signalled", signal: "SIGKILL", message: "killed by SIGKILL", at: epoch.toISOString() } as const;
const killed: Partial<Observed> = { phase: "exited", isListening: false, exit };
const noImage = { reason: "ImageNotFound", message: "the image x:1 does not exist", at: epoch.toISOString() } as const;
const unwell = { main: { ...warm, isHealthy: false, failures: 3, message: "timeout" } };

/** It is missed at its port since then. */
const lost = (seconds: number): SlotInput["health"] => ({ main: { ...warm, lostAt: later(seconds) } });

function request(kind: SlotRequest["kind"], seconds: number, more: Partial<SlotRequest> = {}): SlotRequest {
  const requestedAt = later(seconds).toISOString();
  return { schema: 1, slot: "primary", kind, token: "t1", specHash: "spec-1", requestedAt, ...more };
}

/** What gateways tell that know the revision in force. */
function demand(more: Partial<SlotInput["demand"]> = {}): SlotInput["demand"] {
  return { ...noDemand, seenRevision: 7, ...more };
}

/** A slot that was ready, and is to be unloaded since then. */
function unloadingSince(seconds: number): typeof serving {
  const change = { from: "ready", to: "unloading", reason: "Disabled", message: "" } as const;
  const transitions = [{ at: later(seconds).toISOString(), ...change }];
  return { ...serving, before: published({ state: "unloading", transitions }) };
}

/** A slot that was started once, and runs no more. */
function startedAt(seconds: number): Pick<SlotInput, "before"> {
  const start = { from: "offline", to: "starting", reason: "Starting", message: "1 request waits for it" } as const;
  return { before: published({ state: "offline", transitions: [{ at: later(seconds).toISOString(), ...start }] }) };
}

/** A slot that has failed so many times in a row, and of which nothing runs. */
function failed(failures: number, reason: string, message: string, at = epoch, next?: Date): PublishedSlot {
  const nextRetryAt = next === undefined ? {} : { nextRetryAt: next.toISOString() };
  const lastError = { reason, message, time: at.toISOString() };
  return published({ state: "error", failures, processes: [], lastError, ...nextRetryAt });
}

/** A process whose program could not be started. */
function notStarted(more: Partial<Observed> = {}): Observed {
  const refused = { reason: "StartFailed", message: "no such program: /nope", at: epoch.toISOString() } as const;
  return observed({ phase: "exited", isListening: false, exit: refused, ...more });
}

/** A process that is not ready yet, of a slot in that state. */
function coming(state: "pulling" | "starting" | "warming", more: Partial<Observed> = {}) {
  return { before: published({ state }), observed: [observed(more)], health: { main: cold } };
}

const diagnostic = { reason: "InvalidSpec", file: "/config/slots/primary.toml", line: 3, column: 1, path: ["modle"] };
const broken = input({ diagnostics: [{ ...diagnostic, reason: "InvalidSpec", message: "unknown key" }] });
const fetching = { reason: "Pulling", message: "node nas fetches the image x:1", isStuck: false } as const;
const unschedulable = { reason: "Unschedulable", message: "no node takes its Pod", isStuck: true } as const;
const ownPort = { port: { port: 8081, holder: "other" }, aliases: [] };
const busy = demand({ inFlight: 2, lastRequestAt: later(90), lastByteAt: later(95) });
const slow = demand({ inFlight: 1, lastRequestAt: epoch });
const always = "notRunning: starting progressing Starting: it is always loaded";
const waits =
  "wait until 104 s (failure 3 in a row; `berth slot restart primary` or an edit starts it at once; next try); " +
  "again in 4 s";
const unloading = "notWanted: unloading leaving Disabled: enabled is false";

const rows: Readonly<Record<string, readonly [given: SlotInput, said: string, done?: string]>> = {
  "an always-loaded slot of which nothing runs is started": [input(), always, `${start}; again in 0.02 s`],
  "a disabled slot without processes is offline": [
    input({ spec: disabled }),
    "notWanted: offline off Disabled: enabled is false",
  ],
  "a built-in without a manifest says NotConfigured": [
    input({ spec: disabled, isDeclared: false }),
    "notWanted: offline off NotConfigured: no manifest configures this slot",
  ],
  "a slot whose manifest is gone and that runs nothing is deleted": [
    input({ isDeclared: false }),
    "notWanted: offline off Deleted: its manifest is gone",
    "deleted",
  ],
  "disabling a ready slot drains it first": [
    input({ spec: disabled, ...serving }),
    unloading,
    "drain until 130 s, stop main; again in 5 s",
  ],
  "an unloading slot that every gateway has let go of is stopped": [
    input({ spec: disabled, ...unloadingSince(99), demand: demand() }),
    unloading,
    "stop main",
  ],
  "an unloading slot with a request in flight waits until its deadline": [
    input({ spec: disabled, ...unloadingSince(90), demand: slow }),
    unloading,
    "drain until 120 s, stop main; again in 5 s",
  ],
  "an unloading slot of which a gateway does not know yet waits until its deadline": [
    input({ spec: disabled, ...unloadingSince(90), demand: demand({ seenRevision: 6 }) }),
    unloading,
    "drain until 120 s, stop main; again in 5 s",
  ],
  "past the deadline it is stopped whatever is in flight": [
    input({ spec: disabled, ...unloadingSince(60), demand: { ...slow, seenRevision: 0 } }),
    unloading,
    "stop main",
  ],
  "an engine that still loads is stopped at once, whatever gateways know": [
    input({ spec: disabled, ...coming("warming"), demand: demand({ seenRevision: 0 }) }),
    unloading,
    "stop main",
  ],
  "a manifest that was never valid stalls and touches nothing": [
    { ...broken, observed: [observed()], spec: undefined },
    "neverValid: error stalled InvalidSpec: /config/slots/primary.toml:3:1: modle: unknown key",
  ],
  "the port conflict of a new slot stalls it": [
    input({ conflicts: ownPort }),
    "portConflict: error stalled PortConflict: port 8081 belongs to slot other",
  ],
  "what cannot be had keeps what runs": [
    input({ workloads: { reason: "ModelFileMissing", message: "/models/x.gguf is missing" }, ...serving }),
    "refused: ready stalled ModelFileMissing: /models/x.gguf is missing",
  ],
  "no free port is waited for, not stalled": [
    input({ workloads: { reason: "NoFreePort", message: "every engine port is taken" } }),
    "noFreePort: error retrying NoFreePort: every engine port is taken",
    "wait; again in 5 s",
  ],
  "a loaded slot whose next workload finds no port serves on": [
    input({ workloads: { reason: "NoFreePort", message: "every engine port is taken" }, ...serving }),
    "noFreePort: ready retrying NoFreePort: every engine port is taken",
    "wait; again in 5 s",
  ],
  "memory that others hold is waited for, not stalled": [
    input({ workloads: { reason: "NoMemory", message: "needs 9.0 GiB on CUDA0" } }),
    "noFreePort: error retrying NoMemory: needs 9.0 GiB on CUDA0",
    "wait; again in 5 s",
  ],
  "a model that cannot fit leaves what runs alone, and says so": [
    input({ workloads: { reason: "DoesNotFit", message: "needs 90 GiB on CUDA0" }, ...serving }),
    "refused: ready stalled DoesNotFit: needs 90 GiB on CUDA0",
  ],
  "an edit of what the engine is started with drains, stops and starts": [
    input({ held: { ref: "big", origin: "spec" }, workloads: [workload({ hash: "hash-2" })], ...serving }),
    "mustRestart: unloading leaving Changed: the model changed from tiny to big",
    `drain until 130 s, stop main, ${start}; again in 5 s`,
  ],
  "an engine that still loads is replaced without draining": [
    input({ workloads: [workload({ hash: "hash-2" })], ...coming("warming") }),
    "mustRestart: unloading leaving Changed: the file of its model, its image or its program has changed",
    `stop main, ${start}`,
  ],
  "a restart request restarts what started before it": [
    input({ requests: [request("restart", 50)], ...serving }),
    "mustRestart: unloading leaving Changed: restart requested at 2026-01-01T00:00:50.000Z",
    `drain until 130 s, stop main, ${start}; again in 5 s`,
  ],
  "a killed engine is an error with its cause, then cleared": [
    input({ before: published(), observed: [observed(killed)] }),
    "crashed: error retrying Signalled: killed by SIGKILL",
    "stop main (remove the exited process); fails after long; again in 0 s",
  ],
  "a ready engine that is simply gone is an error too": [
    input({ before: published() }),
    "crashed: error retrying Vanished: the engine is gone, and its exit was not observed",
    "fails after long; again in 0 s",
  ],
  "a program that cannot be started waits for a person": [
    input({ before: published({ state: "starting" }), observed: [notStarted()] }),
    "crashed: error stalled StartFailed: no such program: /nope",
    "stop main (remove the exited process); fails for good after long; again in 0 s",
  ],
  "what was refused for an earlier spec says nothing of the one that was saved meanwhile": [
    input({
      before: published({ state: "starting", processes: [] }, { specHash: "earlier" }),
      observed: [notStarted({ hash: "hash-earlier" })],
    }),
    "outdated: starting progressing Changed: the process that ended was started for an earlier spec",
    "stop main; again in 0 s",
  ],
  "a ready engine that dies while its manifest is edited is an error with its cause": [
    input({ before: published({}, { specHash: "earlier" }), observed: [observed({ hash: "earlier", ...killed })] }),
    "crashed: error retrying Signalled: killed by SIGKILL",
    "stop main (remove the exited process); fails after long; again in 0 s",
  ],
  "after a failure that only a person can mend nothing is tried": [
    input({ before: failed(1, "StartFailed", "no such program: /nope") }),
    "stalled: error stalled StartFailed: no such program: /nope",
  ],
  "until the spec changes": [
    input({ specHash: "spec-2", before: failed(1, "StartFailed", "no such program: /nope") }),
    always,
    `${start}; again in 0.02 s`,
  ],
  "a crash loop waits for its next try and says when": [
    input({ before: failed(3, "Exited", "exited with code 1", epoch, later(104)) }),
    "backingOff: error retrying Exited: exited with code 1",
    waits,
  ],
  "what several replicas wait for is said once": [
    input({
      workloads: [workload(), workload({ ordinal: 1, port: 8082 })],
      before: failed(3, "Exited", "exited with code 1", epoch, later(104)),
    }),
    "backingOff: error retrying Exited: exited with code 1",
    waits,
  ],
  "a failure from before the clock was set back delays no start": [
    input({ before: failed(3, "Exited", "exited with code 1", later(3600), later(3604)) }),
    always,
    `${start}; again in 0.02 s`,
  ],
  "a stranger on the port fails the start": [
    input(coming("starting", { isListening: false, isPortTaken: true })),
    "startupFailed: error retrying PortInUse: another process listens on port 8081",
    "stop main; fails; again in 0 s",
  ],
  "start-up time ends": [
    input({ ...coming("warming"), spec: minute, health: { main: { ...cold, message: "/health answered 503" } } }),
    "startupFailed: error retrying StartupTimeout: not healthy after 60 s: /health answered 503",
    "stop main; fails; again in 0 s",
  ],
  "an engine whose program has not begun has all the time, and no start-up time": [
    input({ spec: minute, ...coming("pulling", { isListening: false, pending: fetching }) }),
    "pending: pulling progressing Pulling: node nas fetches the image x:1",
    "wait; again in 5 s",
  ],
  "an engine that waits for a person is kept, and says for what": [
    input(coming("pulling", { isListening: false, pending: unschedulable })),
    "pending: error retrying Unschedulable: no node takes its Pod",
    "wait; again in 5 s",
  ],
  "start-up time runs from when the program began": [
    input({ spec: minute, ...coming("starting", { isListening: false, begunAt: later(60) }) }),
    "coming: starting progressing Starting: the main process does not listen on port 8081 yet",
    "wait; again in 0.2 s",
  ],
  "an image that does not exist is not fetched again and again": [
    input(coming("pulling", { phase: "exited", isListening: false, startedAt: later(90), exit: noImage })),
    "crashed: error stalled ImageNotFound: the image x:1 does not exist",
    "stop main (remove the exited process); fails for good; again in 0 s",
  ],
  "probes that fail restart an engine without requests": [
    input({ ...serving, health: unwell }),
    "unhealthy: error retrying Unhealthy: 3 probes failed: timeout",
    "stop main; fails; again in 0 s",
  ],
  "but not one that is busy answering": [
    input({ ...serving, health: unwell, demand: busy }),
    "unhealthy: ready retrying Unhealthy: 3 probes failed: timeout",
    "wait (2 requests in flight may still be answered); again in 5 s",
  ],
  "a busy one that has sent nothing for hungSeconds is restarted": [
    input({ ...serving, now: later(95 + 301), health: unwell, demand: busy }),
    "unhealthy: error retrying Unhealthy: 3 probes failed: timeout",
    "stop main; fails; again in 0 s",
  ],
  "a stranger on the port of a ready engine ends it, whoever waits for an answer": [
    input({
      before: published(),
      observed: [observed({ isListening: false, isPortTaken: true })],
      health: lost(100),
      demand: busy,
    }),
    "unreachable: error retrying PortInUse: another process listens on port 8081 of the engine",
    "stop main; fails; again in 0 s",
  ],
  "a ready engine whose socket has been gone for a second is restarted": [
    input({ before: published(), observed: [observed({ isListening: false })], health: lost(99) }),
    "unreachable: error retrying NotListening: the main process no longer listens on port 8081",
    "stop main; fails; again in 0 s",
  ],
  "where requests are in flight it completes them first, as when it is unloaded, and has failed": [
    input({ before: published(), observed: [observed({ isListening: false })], health: lost(99), demand: busy }),
    "unreachable: unloading leaving NotListening: the main process no longer listens on port 8081",
    "drain until 130 s, stop main; fails; again in 5 s",
  ],
  "a ready engine whose socket has just gone may open it again": [
    input({
      before: published(),
      observed: [observed({ isListening: false })],
      health: lost(99.6),
    }),
    "unreachable: ready loaded Loaded: tiny is loaded",
    "again in 0.6 s",
  ],
  "a process that does not listen yet is starting": [
    input({ now: later(1), ...coming("starting", { isListening: false }) }),
    "coming: starting progressing Starting: the main process does not listen on port 8081 yet",
    "wait; again in 0.1 s",
  ],
  "one that listens and loads is warming": [
    input({ now: later(1), ...coming("starting") }),
    "coming: warming progressing Warming: the engine loads its model",
    "wait; again in 0.1 s",
  ],
  "a healthy one is asked once before it is ready": [
    input({ now: later(1), ...coming("warming"), health: { main: { ...cold, isHealthy: true } } }),
    "coming: warming progressing Warming: a first request proves that the model answers",
    "warm main (the probe passed); again in 0.1 s",
  ],
  "the message names why the last warm-up request failed": [
    input({
      now: later(1),
      ...coming("warming"),
      health: { main: { ...cold, isHealthy: true, message: "it answered 500" } },
    }),
    "coming: warming progressing Warming: a first request proves that the model answers; the last try failed: it answered 500",
    "warm main (the last try failed: it answered 500); again in 0.1 s",
  ],
  "the next warm-up request waits its time": [
    input({
      now: later(1),
      ...coming("warming"),
      health: { main: { ...cold, isHealthy: true, message: "it answered 500", warmUpAt: later(3) } },
    }),
    "coming: warming progressing Warming: a first request proves that the model answers; the last try failed: it answered 500",
    "wait until 3 s (the last try failed: it answered 500; next try); again in 2 s",
  ],
  "one that refuses the warm-up request waits for a person": [
    input({ ...coming("warming"), health: { main: { ...cold, isRefused: true, message: "no such role" } } }),
    "startupFailed: error stalled WarmUpRefused: no such role",
    "stop main; fails for good; again in 0 s",
  ],
  "a slot that a client has requested and left is loaded to the end": [
    input({ spec: { ...onDemand, idleSeconds: 1 }, ...coming("warming"), demand: demand({ lastRequestAt: later(1) }) }),
    "coming: warming progressing Warming: the engine loads its model",
    "wait; again in 0.2 s",
  ],
  "a slot that was requested to load is idle from when it is ready": [
    input({
      spec: { ...onDemand, idleSeconds: 8 },
      ...serving,
      before: published({ readySince: later(95).toISOString() }),
      requests: [request("load", 1)],
    }),
    "loaded: ready loaded Loaded: tiny is loaded",
    "again in 3 s",
  ],
  "a warm one is ready": [
    input({ ...coming("warming"), health: { main: warm } }),
    "loaded: ready loaded Loaded: tiny is loaded",
  ],
  "the second process dies alone: the first keeps serving": [
    input({
      ...serving,
      name: "embed",
      workloads: [workload(), workload({ role: "rerank", port: 8082, hash: "hash-r" })],
      observed: [observed(), observed({ role: "rerank", port: 8082, hash: "hash-r", ...killed })],
    }),
    "crashed: ready retrying Signalled: killed by SIGKILL",
    "stop rerank (remove the exited process); fails after long; again in 0 s",
  ],
  "an on-demand slot without requests stays cold": [
    input({ spec: onDemand }),
    "notWanted: offline off ScaledToZero: no request needs it",
  ],
  "an on-demand slot whose port is another's says so before anybody asks for it": [
    input({ spec: { ...onDemand, port: 8081 }, conflicts: ownPort }),
    "cannotLoad: error stalled PortConflict: port 8081 belongs to slot other",
  ],
  "an on-demand slot whose model is missing says so before anybody asks for it": [
    input({ spec: onDemand, workloads: { reason: "ModelNotFound", message: "no model tiny" } }),
    "cannotLoad: error stalled ModelNotFound: no model tiny",
  ],
  "an on-demand slot that could not be loaded again is unloaded first": [
    input({
      spec: { ...onDemand, idleSeconds: 1 },
      workloads: { reason: "ModelNotFound", message: "no model tiny" },
      before: published({ state: "unloading" }),
      observed: [observed({ phase: "exited", isListening: false })],
    }),
    "notWanted: unloading leaving ScaledToZero: no request needs it",
    "stop main",
  ],
  "held requests load it": [
    input({ spec: onDemand, demand: demand({ held: 2, lastRequestAt: later(100) }) }),
    "notRunning: starting progressing Starting: 2 requests wait for it",
    `${start}; again in 0.02 s`,
  ],
  "the message about a single held request is in the singular": [
    input({ spec: onDemand, demand: demand({ held: 1, lastRequestAt: later(100) }) }),
    "notRunning: starting progressing Starting: 1 request waits for it",
    `${start}; again in 0.02 s`,
  ],
  "a loaded on-demand slot looks again when its idle time ends": [
    input({ spec: { ...onDemand, idleSeconds: 12 }, demand: demand({ lastRequestAt: later(90) }), ...serving }),
    "loaded: ready loaded Loaded: tiny is loaded",
    "again in 2 s",
  ],
  "an unload request keeps an always-loaded slot unloaded": [
    input({ requests: [request("unload", 50)] }),
    "notWanted: offline off Unloaded: unloaded by request at 2026-01-01T00:00:50.000Z",
  ],
  "the reason of an unloaded slot names the caller, where callers are known": [
    input({ requests: [request("unload", 50, { requestedBy: "laptop" })] }),
    "notWanted: offline off Unloaded: unloaded by request of laptop at 2026-01-01T00:00:50.000Z",
  ],
  "the reason of an on-demand slot that was unloaded names the caller, and that a request loads it": [
    input({ spec: onDemand, requests: [request("unload", 50, { requestedBy: "laptop" })] }),
    "notWanted: offline off UnloadedUntilRequest: unloaded by request of laptop at 2026-01-01T00:00:50.000Z; the next request loads it",
  ],
  "an on-demand slot that was loaded since is not said to be unloaded by hand, also after its gateway has gone": [
    input({ spec: onDemand, requests: [request("unload", 50)], ...startedAt(60) }),
    "notWanted: offline off ScaledToZero: no request needs it",
  ],
  "an edit after the unload request loads it again": [
    input({ requests: [request("unload", 50, { specHash: "older" })] }),
    always,
    `${start}; again in 0.02 s`,
  ],
};

for (const [name, [given, said, done = ""]] of Object.entries(rows)) {
  test(`plan: ${name}`, () => assert.deepEqual(decided(given), [said, done]));
}
