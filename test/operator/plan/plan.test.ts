import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import type { PublishedSlot, SlotRequest } from "../../../src/api/status.ts";
import type { Observed } from "../../../src/api/workload.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import type { Decision } from "../../../src/operator/plan/decision.ts";
import { cold, epoch, input, later, observed, published, warm, workload } from "../fixture.ts";

const command = "/bin/llama-server --port 8081";
/** A slot that is ready and serves. */
const serving = { before: published(), observed: [observed()], health: { main: warm } };
const onDemand: SlotSpecInput = { model: { default: "tiny" }, load: "onDemand" };
const exit = { reason: "Signalled", signal: "SIGKILL", message: "killed by SIGKILL", at: epoch.toISOString() } as const;

const fetching = { reason: "Pulling", message: "node nas fetches the image x:1" } as const;
const unschedulable = { reason: "Unschedulable", message: "no node takes its Pod" } as const;
const noImage = { reason: "ImageNotFound", message: "the image x:1 does not exist", at: epoch.toISOString() } as const;

function request(kind: SlotRequest["kind"], seconds: number, more: Partial<SlotRequest> = {}): SlotRequest {
  return {
    schema: 1,
    slot: "primary",
    kind,
    token: "t1",
    specHash: "spec-1",
    requestedAt: later(seconds).toISOString(),
    ...more,
  };
}

/** What gateways tell that know the revision in force. */
function demand(more: Partial<SlotInput["demand"]> = {}): SlotInput["demand"] {
  return { held: 0, inFlight: 0, lastRequestAt: undefined, lastByteAt: undefined, seenRevision: 7, ...more };
}

/** A slot that was ready and was disabled then. */
function unloadingSince(seconds: number): PublishedSlot {
  const change = { from: "ready", to: "unloading", reason: "Disabled", message: "" } as const;
  return published({ state: "unloading", transitions: [{ at: later(seconds).toISOString(), ...change }] });
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

type Expected = Decision & { readonly check: string };

function disabling(steps: Decision["steps"], requeueMs?: number): Expected {
  const [reason, message] = ["Disabled", "enabled is false"];
  const decision = {
    check: "notWanted",
    state: "unloading",
    conditionSet: "unloading",
    reason,
    message,
    steps,
  } as const;
  return requeueMs === undefined ? decision : { ...decision, requeueMs };
}

function offline(reason: string, message: string): Expected {
  return { check: "notWanted", state: "offline", conditionSet: "offline", reason, message, steps: [] };
}

function starting(why: string): Expected {
  const step = { do: "start", role: "main", port: 8081, command, reason: why } as const;
  const told = { conditionSet: "progressing", reason: "Starting", message: why } as const;
  return { check: "notRunning", state: "starting", ...told, steps: [step], requeueMs: 20 };
}

interface Row {
  readonly name: string;
  readonly given: SlotInput;
  readonly expected: Expected;
}

const rows: Row[] = [
  {
    name: "an always-loaded slot of which nothing runs is started",
    given: input(),
    expected: starting("it is always loaded"),
  },
  {
    name: "a disabled slot without processes is offline",
    given: input({ spec: { enabled: false } }),
    expected: offline("Disabled", "enabled is false"),
  },
  {
    name: "a built-in without a manifest says NotConfigured",
    given: input({ spec: { enabled: false }, isDeclared: false }),
    expected: offline("NotConfigured", "no manifest configures this slot"),
  },
  {
    name: "a slot whose manifest is gone and that runs nothing is deleted",
    given: input({ isDeclared: false }),
    expected: { ...offline("Deleted", "its manifest is gone"), isDeleted: true },
  },
  {
    name: "disabling a ready slot drains it first",
    given: input({ spec: { enabled: false }, ...serving }),
    expected: disabling(
      [
        { do: "drain", reason: "enabled is false", deadline: later(130).toISOString() },
        { do: "stop", role: "main", reason: "enabled is false" },
      ],
      30_000,
    ),
  },
  {
    name: "an unloading slot that every gateway has let go of is stopped",
    given: input({
      spec: { enabled: false },
      before: unloadingSince(99),
      demand: demand(),
      observed: [observed()],
      health: { main: warm },
    }),
    expected: disabling([{ do: "stop", role: "main", reason: "enabled is false" }]),
  },
  {
    name: "an unloading slot with a request in flight waits until its deadline",
    given: input({
      spec: { enabled: false },
      before: unloadingSince(90),
      demand: demand({ inFlight: 1, lastRequestAt: epoch }),
      observed: [observed()],
      health: { main: warm },
    }),
    expected: disabling(
      [
        { do: "drain", reason: "enabled is false", deadline: later(120).toISOString() },
        { do: "stop", role: "main", reason: "enabled is false" },
      ],
      20_000,
    ),
  },
  {
    name: "past the deadline it is stopped whatever is in flight",
    given: input({
      spec: { enabled: false },
      before: unloadingSince(60),
      demand: demand({ inFlight: 1, lastRequestAt: epoch, seenRevision: 0 }),
      observed: [observed()],
      health: { main: warm },
    }),
    expected: disabling([{ do: "stop", role: "main", reason: "enabled is false" }]),
  },
  {
    name: "a manifest that was never valid stalls and touches nothing",
    given: {
      ...input({
        diagnostics: [
          {
            reason: "InvalidSpec",
            file: "/config/slots/primary.toml",
            line: 3,
            column: 1,
            path: ["modle"],
            message: "unknown key",
          },
        ],
        observed: [observed()],
      }),
      spec: undefined,
    },
    expected: {
      check: "neverValid",
      state: "error",
      conditionSet: "stalled",
      reason: "InvalidSpec",
      message: "/config/slots/primary.toml:3:1: modle: unknown key",
      steps: [],
    },
  },
  {
    name: "the port conflict of a new slot stalls it",
    given: input({ conflicts: { port: { port: 8085, holder: "embed" }, aliases: [] } }),
    expected: {
      check: "portConflict",
      state: "error",
      conditionSet: "stalled",
      reason: "PortConflict",
      message: "port 8085 belongs to slot embed",
      steps: [],
    },
  },
  {
    name: "what cannot be had keeps what runs",
    given: input({
      workloads: { reason: "ModelFileMissing", message: "/models/x.gguf is missing" },
      ...serving,
    }),
    expected: {
      check: "refused",
      state: "ready",
      conditionSet: "loadedStalled",
      reason: "ModelFileMissing",
      message: "/models/x.gguf is missing",
      steps: [],
    },
  },
  {
    name: "no free port is waited for, not stalled",
    given: input({ workloads: { reason: "NoFreePort", message: "every engine port is taken" } }),
    expected: {
      check: "noFreePort",
      state: "error",
      conditionSet: "retrying",
      reason: "NoFreePort",
      message: "every engine port is taken",
      steps: [{ do: "wait", reason: "every engine port is taken" }],
      requeueMs: 5000,
    },
  },
  {
    name: "memory that others hold is waited for, not stalled",
    given: input({ workloads: { reason: "NoMemory", message: "needs 9.0 GiB on CUDA0, which has 1.0 GiB free" } }),
    expected: {
      check: "noFreePort",
      state: "error",
      conditionSet: "retrying",
      reason: "NoMemory",
      message: "needs 9.0 GiB on CUDA0, which has 1.0 GiB free",
      steps: [{ do: "wait", reason: "needs 9.0 GiB on CUDA0, which has 1.0 GiB free" }],
      requeueMs: 5000,
    },
  },
  {
    name: "a model that cannot fit leaves what runs alone, and says so",
    given: input({ workloads: { reason: "DoesNotFit", message: "needs 90 GiB on CUDA0" }, ...serving }),
    expected: {
      check: "refused",
      state: "ready",
      conditionSet: "loadedStalled",
      reason: "DoesNotFit",
      message: "needs 90 GiB on CUDA0",
      steps: [],
    },
  },
  {
    name: "an edit of what the engine is started with drains, stops and starts",
    given: input({
      held: { ref: "big", origin: "spec" },
      workloads: [workload({ hash: "hash-2" })],
      ...serving,
    }),
    expected: {
      check: "mustRestart",
      state: "unloading",
      conditionSet: "unloading",
      reason: "Changed",
      message: "the model changed from tiny to big",
      steps: [
        { do: "drain", reason: "the model changed from tiny to big", deadline: later(130).toISOString() },
        { do: "stop", role: "main", reason: "the model changed from tiny to big" },
        { do: "start", role: "main", port: 8081, command, reason: "the model changed from tiny to big" },
      ],
      requeueMs: 30_000,
    },
  },
  {
    name: "an engine that still loads is replaced without draining",
    given: input({
      workloads: [workload({ hash: "hash-2" })],
      before: published({ state: "warming" }),
      observed: [observed()],
      health: { main: cold },
    }),
    expected: {
      check: "mustRestart",
      state: "unloading",
      conditionSet: "unloading",
      reason: "Changed",
      message: "the file of its model, its image or its program has changed",
      steps: [
        { do: "stop", role: "main", reason: "the file of its model, its image or its program has changed" },
        {
          do: "start",
          role: "main",
          port: 8081,
          command,
          reason: "the file of its model, its image or its program has changed",
        },
      ],
    },
  },
  {
    name: "a restart request restarts what started before it",
    given: input({
      requests: [request("restart", 50)],
      ...serving,
    }),
    expected: {
      check: "mustRestart",
      state: "unloading",
      conditionSet: "unloading",
      reason: "Changed",
      message: "restart requested at 2026-01-01T00:00:50.000Z",
      steps: [
        { do: "drain", reason: "restart requested at 2026-01-01T00:00:50.000Z", deadline: later(130).toISOString() },
        { do: "stop", role: "main", reason: "restart requested at 2026-01-01T00:00:50.000Z" },
        { do: "start", role: "main", port: 8081, command, reason: "restart requested at 2026-01-01T00:00:50.000Z" },
      ],
      requeueMs: 30_000,
    },
  },
  {
    name: "a killed engine is an error with its cause, then cleared",
    given: input({ before: published(), observed: [observed({ phase: "exited", exit, isListening: false })] }),
    expected: {
      check: "crashed",
      state: "error",
      conditionSet: "retrying",
      reason: "Signalled",
      message: "killed by SIGKILL",
      failure: { reason: "Signalled", message: "killed by SIGKILL", isTerminal: false, isSteady: true },
      steps: [{ do: "stop", role: "main", reason: "remove the exited process" }],
      requeueMs: 0,
    },
  },
  {
    name: "a ready engine that is simply gone is an error too",
    given: input({ before: published() }),
    expected: {
      check: "crashed",
      state: "error",
      conditionSet: "retrying",
      reason: "Vanished",
      message: "the engine is gone, and its exit was not observed",
      failure: {
        reason: "Vanished",
        message: "the engine is gone, and its exit was not observed",
        isTerminal: false,
        isSteady: true,
      },
      steps: [],
      requeueMs: 0,
    },
  },
  {
    name: "a program that cannot be started waits for a person",
    given: input({
      before: published({ state: "starting" }),
      observed: [notStarted()],
    }),
    expected: {
      check: "crashed",
      state: "error",
      conditionSet: "stalled",
      reason: "StartFailed",
      message: "no such program: /nope",
      failure: { reason: "StartFailed", message: "no such program: /nope", isTerminal: true, isSteady: true },
      steps: [{ do: "stop", role: "main", reason: "remove the exited process" }],
      requeueMs: 0,
    },
  },
  {
    name: "what was refused for an earlier spec says nothing of the one that was saved meanwhile",
    given: input({
      before: published({ state: "starting", processes: [] }, { specHash: "earlier" }),
      observed: [notStarted({ hash: "hash-earlier" })],
    }),
    expected: {
      check: "outdated",
      state: "starting",
      conditionSet: "progressing",
      reason: "Changed",
      message: "the process that ended was started for an earlier spec",
      steps: [{ do: "stop", role: "main", reason: "the process that ended was started for an earlier spec" }],
      requeueMs: 0,
    },
  },
  {
    name: "a ready engine that dies while its manifest is edited is an error with its cause",
    given: input({
      before: published({}, { specHash: "earlier" }),
      observed: [observed({ hash: "hash-earlier", phase: "exited", isListening: false, exit })],
    }),
    expected: {
      check: "crashed",
      state: "error",
      conditionSet: "retrying",
      reason: "Signalled",
      message: "killed by SIGKILL",
      failure: { reason: "Signalled", message: "killed by SIGKILL", isTerminal: false, isSteady: true },
      steps: [{ do: "stop", role: "main", reason: "remove the exited process" }],
      requeueMs: 0,
    },
  },
  {
    name: "after such a failure nothing is tried",
    given: input({
      before: failed(1, "StartFailed", "no such program: /nope"),
    }),
    expected: {
      check: "stalled",
      state: "error",
      conditionSet: "stalled",
      reason: "StartFailed",
      message: "no such program: /nope",
      steps: [],
    },
  },
  {
    name: "until the spec changes",
    given: input({
      specHash: "spec-2",
      before: failed(1, "StartFailed", "no such program: /nope"),
    }),
    expected: starting("it is always loaded"),
  },
  {
    name: "a crash loop waits for its next try and says when",
    given: input({
      before: failed(3, "Exited", "exited with code 1", epoch, later(104)),
    }),
    expected: {
      check: "backingOff",
      state: "error",
      conditionSet: "retrying",
      reason: "Exited",
      message: "exited with code 1",
      steps: [
        {
          do: "wait",
          reason: "failure 3 in a row; `berth slot restart primary` or an edit starts it at once; next try",
          until: later(104).toISOString(),
        },
      ],
      requeueMs: 4000,
    },
  },
  {
    name: "a failure from before the clock was set back delays no start",
    given: input({
      before: failed(3, "Exited", "exited with code 1", later(3600), later(3604)),
    }),
    expected: starting("it is always loaded"),
  },
  {
    name: "a stranger on the port fails the start",
    given: input({
      before: published({ state: "starting" }),
      observed: [observed({ isListening: false, isPortTaken: true })],
      health: { main: cold },
    }),
    expected: {
      check: "startupFailed",
      state: "error",
      conditionSet: "retrying",
      reason: "PortInUse",
      message: "another process listens on port 8081",
      failure: {
        reason: "PortInUse",
        message: "another process listens on port 8081",
        isTerminal: false,
        isSteady: false,
      },
      steps: [{ do: "stop", role: "main", reason: "another process listens on port 8081" }],
      requeueMs: 0,
    },
  },
  {
    name: "start-up time ends",
    given: input({
      spec: { model: { default: "tiny" }, probe: { startupSeconds: 60 } },
      before: published({ state: "warming" }),
      observed: [observed()],
      health: { main: { ...cold, message: "/health answered 503: Loading model" } },
    }),
    expected: {
      check: "startupFailed",
      state: "error",
      conditionSet: "retrying",
      reason: "StartupTimeout",
      message: "not healthy after 60 s: /health answered 503: Loading model",
      failure: {
        reason: "StartupTimeout",
        message: "not healthy after 60 s: /health answered 503: Loading model",
        isTerminal: false,
        isSteady: false,
      },
      steps: [{ do: "stop", role: "main", reason: "not healthy after 60 s: /health answered 503: Loading model" }],
      requeueMs: 0,
    },
  },
  {
    name: "an engine whose program has not begun has all the time, and no start-up time",
    given: input({
      spec: { model: { default: "tiny" }, probe: { startupSeconds: 60 } },
      before: published({ state: "pulling" }),
      observed: [observed({ isListening: false, pending: { ...fetching, isStuck: false } })],
      health: { main: cold },
    }),
    expected: {
      check: "pending",
      state: "pulling",
      conditionSet: "progressing",
      ...fetching,
      steps: [{ do: "wait", reason: fetching.message }],
      requeueMs: 5000,
    },
  },
  {
    name: "an engine that waits for a person is kept, and says for what",
    given: input({
      before: published({ state: "pulling" }),
      observed: [observed({ isListening: false, pending: { ...unschedulable, isStuck: true } })],
      health: { main: cold },
    }),
    expected: {
      check: "pending",
      state: "error",
      conditionSet: "retrying",
      ...unschedulable,
      steps: [{ do: "wait", reason: unschedulable.message }],
      requeueMs: 5000,
    },
  },
  {
    name: "start-up time runs from when the program began",
    given: input({
      spec: { model: { default: "tiny" }, probe: { startupSeconds: 60 } },
      before: published({ state: "starting" }),
      observed: [observed({ isListening: false, begunAt: later(60) })],
      health: { main: cold },
    }),
    expected: {
      check: "coming",
      state: "starting",
      conditionSet: "progressing",
      reason: "Starting",
      message: "the main process does not listen on port 8081 yet",
      steps: [{ do: "wait", reason: "the main process does not listen on port 8081 yet" }],
      requeueMs: 200,
    },
  },
  {
    name: "an image that does not exist is not fetched again and again",
    given: input({
      before: published({ state: "pulling" }),
      observed: [observed({ phase: "exited", isListening: false, startedAt: later(90), exit: noImage })],
    }),
    expected: {
      check: "crashed",
      state: "error",
      conditionSet: "stalled",
      reason: "ImageNotFound",
      message: noImage.message,
      failure: { reason: "ImageNotFound", message: noImage.message, isTerminal: true, isSteady: false },
      steps: [{ do: "stop", role: "main", reason: "remove the exited process" }],
      requeueMs: 0,
    },
  },
  {
    name: "probes that fail restart an engine without requests",
    given: input({
      before: published(),
      observed: [observed()],
      health: { main: { ...warm, isHealthy: false, failures: 3, message: "timeout" } },
    }),
    expected: {
      check: "unhealthy",
      state: "error",
      conditionSet: "retrying",
      reason: "Unhealthy",
      message: "3 probes failed: timeout",
      failure: { reason: "Unhealthy", message: "3 probes failed: timeout", isTerminal: false, isSteady: false },
      steps: [{ do: "stop", role: "main", reason: "3 probes failed: timeout" }],
      requeueMs: 0,
    },
  },
  {
    name: "but not one that is busy answering",
    given: input({
      before: published(),
      observed: [observed()],
      health: { main: { ...warm, isHealthy: false, failures: 3, message: "timeout" } },
      demand: demand({ inFlight: 2, lastRequestAt: later(90), lastByteAt: later(95) }),
    }),
    expected: {
      check: "unhealthy",
      state: "ready",
      conditionSet: "loadedRetrying",
      reason: "Unhealthy",
      message: "3 probes failed: timeout",
      steps: [{ do: "wait", reason: "2 requests in flight may still be answered" }],
      requeueMs: 5000,
    },
  },
  {
    name: "a stranger on the port of a ready engine ends it, whoever waits for an answer",
    given: input({
      before: published(),
      observed: [observed({ isListening: false, isPortTaken: true })],
      health: { main: { ...warm, lostAt: later(100) } },
      demand: demand({ inFlight: 2, lastRequestAt: later(90), lastByteAt: later(95) }),
    }),
    expected: {
      check: "unreachable",
      state: "error",
      conditionSet: "retrying",
      reason: "PortInUse",
      message: "another process listens on port 8081 of the engine",
      failure: {
        reason: "PortInUse",
        message: "another process listens on port 8081 of the engine",
        isTerminal: false,
        isSteady: false,
      },
      steps: [{ do: "stop", role: "main", reason: "another process listens on port 8081 of the engine" }],
      requeueMs: 0,
    },
  },
  {
    name: "a ready engine whose socket has just gone may open it again",
    given: input({
      before: published(),
      observed: [observed({ isListening: false })],
      health: { main: { ...warm, lostAt: later(99.6) } },
    }),
    expected: {
      check: "unreachable",
      state: "ready",
      conditionSet: "loaded",
      reason: "Loaded",
      message: "tiny is loaded",
      steps: [],
      requeueMs: 600,
    },
  },
  {
    name: "a process that does not listen yet is starting",
    given: input({
      now: later(1),
      before: published({ state: "starting" }),
      observed: [observed({ isListening: false })],
      health: { main: cold },
    }),
    expected: {
      check: "coming",
      state: "starting",
      conditionSet: "progressing",
      reason: "Starting",
      message: "the main process does not listen on port 8081 yet",
      steps: [{ do: "wait", reason: "the main process does not listen on port 8081 yet" }],
      requeueMs: 100,
    },
  },
  {
    name: "one that listens and loads is warming",
    given: input({
      now: later(1),
      before: published({ state: "starting" }),
      observed: [observed()],
      health: { main: cold },
    }),
    expected: {
      check: "coming",
      state: "warming",
      conditionSet: "progressing",
      reason: "Warming",
      message: "the engine loads its model",
      steps: [{ do: "wait", reason: "the engine loads its model" }],
      requeueMs: 100,
    },
  },
  {
    name: "a healthy one is asked once before it is ready",
    given: input({
      now: later(1),
      before: published({ state: "warming" }),
      observed: [observed()],
      health: { main: { ...cold, isHealthy: true } },
    }),
    expected: {
      check: "coming",
      state: "warming",
      conditionSet: "progressing",
      reason: "Warming",
      message: "a first request proves that the model answers",
      steps: [{ do: "warm", role: "main", reason: "the probe passed" }],
      requeueMs: 100,
    },
  },
  {
    name: "a warm one is ready",
    given: input({ before: published({ state: "warming" }), observed: [observed()], health: { main: warm } }),
    expected: {
      check: "loaded",
      state: "ready",
      conditionSet: "loaded",
      reason: "Loaded",
      message: "tiny is loaded",
      steps: [],
      requeueMs: 5000,
    },
  },
  {
    name: "the second process dies alone: the first keeps serving",
    given: input({
      name: "embed",
      workloads: [workload(), workload({ role: "rerank", port: 8082, hash: "hash-r" })],
      before: published(),
      observed: [
        observed(),
        observed({ role: "rerank", port: 8082, hash: "hash-r", phase: "exited", isListening: false, exit }),
      ],
      health: { main: warm },
    }),
    expected: {
      check: "crashed",
      state: "ready",
      conditionSet: "loadedRetrying",
      reason: "Signalled",
      message: "killed by SIGKILL",
      failure: { reason: "Signalled", message: "killed by SIGKILL", isTerminal: false, isSteady: true },
      steps: [{ do: "stop", role: "rerank", reason: "remove the exited process" }],
      requeueMs: 0,
    },
  },
  {
    name: "an on-demand slot without requests stays cold",
    given: input({ spec: onDemand }),
    expected: offline("ScaledToZero", "no request needs it"),
  },
  {
    name: "an on-demand slot whose port is another's says so before anybody asks for it",
    given: input({
      spec: { ...onDemand, port: 8081 },
      conflicts: { port: { port: 8081, holder: "other" }, aliases: [] },
    }),
    expected: {
      check: "cannotLoad",
      state: "error",
      conditionSet: "stalled",
      reason: "PortConflict",
      message: "port 8081 belongs to slot other",
      steps: [],
    },
  },
  {
    name: "an on-demand slot whose model is missing says so before anybody asks for it",
    given: input({
      spec: onDemand,
      workloads: { reason: "ModelNotFound", message: "no model tiny" },
    }),
    expected: {
      check: "cannotLoad",
      state: "error",
      conditionSet: "stalled",
      reason: "ModelNotFound",
      message: "no model tiny",
      steps: [],
    },
  },
  {
    name: "an on-demand slot that could not be loaded again is unloaded first",
    given: input({
      spec: { ...onDemand, idleSeconds: 1 },
      workloads: { reason: "ModelNotFound", message: "no model tiny" },
      before: published({ state: "unloading" }),
      observed: [observed({ phase: "exited", isListening: false })],
    }),
    expected: {
      check: "notWanted",
      state: "unloading",
      conditionSet: "unloading",
      reason: "ScaledToZero",
      message: "no request needs it",
      steps: [{ do: "stop", role: "main", reason: "no request needs it" }],
    },
  },
  {
    name: "a held request loads it",
    given: input({
      spec: onDemand,
      demand: demand({ held: 2, lastRequestAt: later(100) }),
    }),
    expected: starting("2 requests wait for it"),
  },
  {
    name: "the message about a single held request is in the singular",
    given: input({ spec: onDemand, demand: demand({ held: 1, lastRequestAt: later(100) }) }),
    expected: starting("1 request waits for it"),
  },
  {
    name: "a loaded on-demand slot looks again when its idle time ends",
    given: input({
      spec: { ...onDemand, idleSeconds: 12 },
      demand: demand({ lastRequestAt: later(90) }),
      ...serving,
    }),
    expected: {
      check: "loaded",
      state: "ready",
      conditionSet: "loaded",
      reason: "Loaded",
      message: "tiny is loaded",
      steps: [],
      requeueMs: 2000,
    },
  },
  {
    name: "an unload request keeps an always-loaded slot unloaded",
    given: input({ requests: [request("unload", 50)] }),
    expected: offline("Unloaded", "unloaded by request at 2026-01-01T00:00:50.000Z"),
  },
  {
    name: "an edit after the unload request loads it again",
    given: input({ requests: [request("unload", 50, { specHash: "older" })] }),
    expected: starting("it is always loaded"),
  },
];

for (const { name, given, expected } of rows) {
  test(`plan: ${name}`, () => {
    const { parts: _parts, ...decision } = plan(Object.freeze(given));
    assert.deepEqual(decision, expected);
  });
}
