import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Condition, ConditionStatus } from "../../src/api/conditions.ts";
import type { SlotState } from "../../src/api/states.ts";
import { lintPorts, lintStatus } from "../../src/api/status-linter.ts";
import { emptyStatus, type SlotStatus } from "../../src/api/status.ts";

const first = "2026-01-01T00:00:00.000Z";
const second = "2026-01-01T00:00:01.000Z";

function isConditionStatus(text: string): text is ConditionStatus {
  return text === "True" || text === "False" || text === "Unknown";
}

function condition(claim: string, at = first): Condition {
  const [type = "", value = "", reason = ""] = claim.split("/");
  assert.ok(isConditionStatus(value));
  return { type, status: value, reason, message: "", observedGeneration: 1, lastTransitionTime: at };
}

const main = {
  role: "main",
  ordinal: 0,
  host: "127.0.0.1",
  port: 8081,
  endpoint: "http://127.0.0.1:8081",
  pid: 7,
  isReady: true,
} as const;
const isReadyState = (state: SlotState) => ["ready", "serving", "idle"].includes(state);

function status(state: SlotState, claims: readonly string[], more: Partial<SlotStatus> = {}): SlotStatus {
  return {
    ...emptyStatus,
    state,
    conditions: claims.map((claim) => condition(claim)),
    observedGeneration: 1,
    processes: isReadyState(state) ? [main] : [],
    ...(isReadyState(state) ? { endpoint: main.endpoint, port: main.port } : {}),
    ...(state === "error" ? { lastError: { reason: "Exited", message: "code 1", time: first } } : {}),
    ...more,
  };
}

const loaded = ["Ready/True/Loaded", "Available/True/Loaded"];
const offline = ["Ready/True/Disabled", "Available/False/Disabled"];

describe("status linter", () => {
  const allowed: readonly (readonly [SlotState, ...string[]])[] = [
    ["offline", "Ready/True/Disabled", "Available/False/Disabled"],
    ["offline", "Ready/True/NotConfigured", "Available/False/NotConfigured"],
    ["offline", "Ready/True/ScaledToZero", "Available/False/ScaledToZero"],
    ["offline", "Ready/True/Unloaded", "Available/False/Unloaded"],
    ["offline", "Ready/True/UnloadedUntilRequest", "Available/False/UnloadedUntilRequest"],
    ["pulling", "Ready/Unknown/Progressing", "Available/False/Pulling", "Reconciling/True/Pulling"],
    ["starting", "Ready/Unknown/Progressing", "Available/False/Starting", "Reconciling/True/Starting"],
    ["warming", "Ready/Unknown/Progressing", "Available/False/Warming", "Reconciling/True/Warming"],
    ["ready", ...loaded],
    ["serving", ...loaded],
    ["idle", ...loaded],
    ["idle", ...loaded, "Stalled/False/Fine", "NameConflict/True/NameConflict"],
    ["unloading", "Ready/Unknown/Progressing", "Available/False/Unloading", "Reconciling/True/Unloading"],
    ["error", "Ready/False/Exited", "Available/False/Exited", "Reconciling/True/ProgressingWithRetry"],
    ["error", "Ready/False/NotAModel", "Available/False/NotAModel", "Stalled/True/NotAModel"],
    ["ready", "Ready/False/InvalidSpec", "Available/True/Loaded", "Stalled/True/InvalidSpec"],
    ["starting", "Ready/False/InvalidSpec", "Available/False/Starting", "Stalled/True/InvalidSpec"],
    ["ready", "Ready/Unknown/Progressing", "Available/True/Loaded", "Reconciling/True/Pulling"],
    ["idle", "Ready/False/NoDisk", "Available/True/Loaded", "Reconciling/True/ProgressingWithRetry"],
    ["serving", "Ready/False/NoDisk", "Available/True/Loaded", "Stalled/True/NoDisk"],
  ];
  it("allows each row of the table", () => {
    for (const [state, ...claims] of allowed)
      assert.deepEqual(
        lintStatus(status(state, claims), status(state, claims), 1),
        [],
        `${state}: ${claims.join(" ")}`,
      );
  });

  const refused: readonly (readonly [what: string, SlotState, readonly string[], RegExp])[] = [
    ["Ready with Stalled", "ready", [...loaded, "Stalled/True/InvalidSpec"], /Ready and Stalled are both True/],
    ["Ready with Reconciling", "ready", [...loaded, "Reconciling/True/X"], /Ready and Reconciling are both True/],
    [
      "Reconciling with Stalled",
      "error",
      ["Ready/False/X", "Available/False/X", "Reconciling/True/ProgressingWithRetry", "Stalled/True/X"],
      /Reconciling and Stalled are both True/,
    ],
    ["Available outside", "starting", loaded, /Available is True in state starting/],
    ["no Available", "ready", ["Ready/True/Loaded"], /no row/],
    ["no conditions", "offline", [], /no row/],
    ["another reason for offline", "offline", ["Ready/True/Loaded", "Available/False/Loaded"], /no row/],
    [
      "two causes in one row",
      "error",
      ["Ready/False/A", "Available/False/B", "Stalled/True/A"],
      /no row of the table allows error with .* = False\/A, False\/B, –, True\/A/,
    ],
    ["an error without Reconciling or Stalled", "error", ["Ready/False/X", "Available/False/X"], /no row/],
    ["a condition twice", "ready", [...loaded, "Ready/True/Loaded"], /Ready is listed twice/],
  ];
  for (const [what, state, claims, problem] of refused) {
    it(`refuses ${what}`, () => {
      assert.match(lintStatus(undefined, status(state, claims), 1).join("\n"), problem);
    });
  }

  const facts: readonly (readonly [what: string, after: SlotStatus, RegExp])[] = [
    [
      "error without lastError",
      without(status("error", allowed[12]?.slice(1) ?? []), "lastError"),
      /without lastError/,
    ],
    ["a retry of nothing", status("ready", loaded, { nextRetryAt: second }), /nextRetryAt/],
    ["progress of nothing", status("ready", loaded, { progress: { bytesDone: 1 } }), /progress/],
    ["readySince offline", status("offline", offline, { readySince: first }), /readySince in state offline/],
    ["ready without process", status("ready", loaded, { processes: [] }), /without a process/],
    ["ready without endpoint", without(status("ready", loaded), "endpoint"), /without an endpoint/],
    ["another port", status("ready", loaded, { port: 8082 }), /port is not that of the main process/],
    [
      "offline with process",
      status("offline", offline, { processes: [{ ...main, isReady: false }], port: 8081 }),
      /offline with/,
    ],
    [
      "ready process in unloading",
      status("unloading", [], { processes: [main], port: 8081 }),
      /ready in state unloading/,
    ],
    [
      "two processes on a port",
      status("ready", loaded, { processes: [main, { ...main, role: "rerank" }] }),
      /one port/,
    ],
    ["observed the future", status("ready", loaded, { observedGeneration: 2 }), /beyond generation 1/],
    ["condition of the future", status("ready", loaded, { observedGeneration: 0 }), /beyond that of the status/],
    ["broken shape", status("ready", ["Ready/True/-"]), /conditions.0.reason/],
  ];
  for (const [what, after, problem] of facts) {
    it(`refuses ${what}`, () => assert.match(lintStatus(undefined, after, 1).join("\n"), problem));
  }

  it("refuses a move that the table does not have, and takes offline as the state of a slot that is new", () => {
    assert.deepEqual(lintStatus(status("offline", offline), status("idle", loaded), 1), [
      "offline → idle is not a move",
      "the move offline → idle is not among the transitions",
    ]);
    assert.deepEqual(lintStatus(undefined, status("serving", loaded), 1), ["offline → serving is not a move"]);
    assert.deepEqual(lintStatus(undefined, status("ready", loaded), 1), []);
  });

  it("requires that each transition begins in the state in which the one before ended", () => {
    const move = { at: first, reason: "X", message: "" };
    const after = status("ready", loaded, {
      transitions: [
        { ...move, from: "offline", to: "idle" },
        { ...move, from: "warming", to: "ready" },
      ],
    });
    assert.deepEqual(lintStatus(undefined, after, 1), [
      "transitions: offline → idle is not a move",
      "transitions: idle is followed by a move from warming",
    ]);
  });

  it("moves lastTransitionTime with the status, forward only", () => {
    const before = status("ready", loaded);
    const restamped = { ...before, conditions: loaded.map((claim) => condition(claim, second)) };
    assert.match(lintStatus(before, restamped, 1).join(), /Ready: lastTransitionTime moved without its status/);
    const failed = ["Ready/False/NoDisk", "Available/True/Loaded", "Stalled/True/NoDisk"];
    assert.match(
      lintStatus(restamped, { ...before, conditions: failed.map((claim) => condition(claim)) }, 1).join(),
      /Ready: lastTransitionTime went back/,
    );
    // Written again for another cause: the status is the same, so is the time.
    assert.deepEqual(lintStatus(status("ready", failed), status("ready", failed), 1), []);
  });

  it("keeps counts and generations from going back", () => {
    const before = status("ready", loaded, { restarts: 2, observedGeneration: 2 });
    assert.deepEqual(lintStatus(before, status("ready", loaded), 2), [
      "observedGeneration went back",
      "restarts went back",
    ]);
  });

  it("reports a port that two slots hold", () => {
    const one = status("ready", loaded);
    assert.deepEqual(lintPorts([["a", one]]), []);
    assert.deepEqual(lintPorts(Object.entries({ a: one, b: one })), [
      "port 127.0.0.1:8081 is held by a/main and b/main",
    ]);
  });
});

function without(from: SlotStatus, key: "lastError" | "endpoint"): SlotStatus {
  const { [key]: _, ...rest } = from;
  return rest;
}
