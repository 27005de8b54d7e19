import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { conditionSchema, type Condition } from "../../../src/api/conditions.ts";
import { ApiError } from "../../../src/api/errors.ts";
import { slotStates } from "../../../src/api/states.ts";
import { availabilityOf, type AvailabilityContext } from "../../../src/gateway/admission/availability.ts";
import { checkCapability, roleFor } from "../../../src/gateway/routing/route-request.ts";
import { buildIndex, type KnownSlot } from "../../../src/gateway/routing/index.ts";
import { publishedSlot, type SlotSketch } from "../../support/gateway.ts";

const now = Date.parse("2026-01-01T00:00:00Z");
const inMs = (ms: number): string => new Date(now + ms).toISOString();
function slotOf(sketch: SlotSketch | undefined, name = "primary"): KnownSlot {
  const slots = sketch === undefined ? [] : [publishedSlot(name, sketch, 1)];
  const index = buildIndex(
    { slots: () => slots, registry: () => ({ schema: 1, models: [], upstreams: [] }) },
    new Map(),
  );
  const slot = index.slots.get(name);
  assert.ok(slot !== undefined);
  return slot;
}

/** In a few words: where it goes, or whether it waits, and what it would be told. */
function told(
  sketch: SlotSketch | undefined,
  around: Partial<AvailabilityContext> = {},
  role: "main" | "rerank" = "main",
): unknown {
  const found = availabilityOf(slotOf(sketch), role, { operator: "live", now, ...around });
  if (found.kind === "open") return found.endpoints[0]?.port;
  const { code, details, headers } = found.failure;
  const again =
    "retry-after" in headers
      ? `after ${headers["retry-after"]}`
      : headers["x-should-retry"] === "false"
        ? "never"
        : "?";
  return [found.kind, code, details?.["reason"], again];
}

const condition = (type: string, status: "True" | "False", reason: string): Condition =>
  conditionSchema.parse({
    type,
    status,
    reason,
    message: `${reason} it is`,
    observedGeneration: 1,
    lastTransitionTime: inMs(0),
  });
const pod = {
  role: "main",
  ordinal: 0,
  host: "10.1.2.3",
  port: 8080,
  endpoint: "http://10.1.2.3:8080",
  podName: "primary-main-0",
  isReady: true,
} as const;
const failing = (failures: number, nextMs: number | undefined, conditions: Condition[] = []): SlotSketch => ({
  state: "error",
  status: {
    failures,
    conditions,
    lastError: { reason: "Exited", message: "exited with code 1", time: inMs(0) },
    ...(nextMs === undefined ? {} : { nextRetryAt: inMs(nextMs) }),
  },
});

describe("availabilityOf", () => {
  const byState = {
    offline: ["shut", "slot.not_ready", "ScaledToZero", "after 2"],
    pulling: ["shut", "slot.not_ready", "Pulling", "after 2"],
    starting: ["shut", "slot.not_ready", "Starting", "after 2"],
    warming: ["shut", "slot.not_ready", "Warming", "after 2"],
    ready: 8081,
    serving: 8081,
    idle: 8081,
    unloading: ["shut", "slot.not_ready", "Unloading", "after 2"],
    error: ["closed", "slot.failed", "Failed", "never"],
  } as const;
  for (const state of slotStates) {
    const isThere = typeof byState[state] === "number";
    it(`of a slot that is ${state}`, () => {
      assert.deepEqual(told({ state, ...(isThere ? { port: 8081 } : {}) }), byState[state]);
    });
  }

  it("does not send to an engine that is being unloaded, though it still answers", () => {
    assert.deepEqual(told({ state: "unloading", port: 8081 }), byState.unloading);
  });

  it("waits where the state is ready and no process is published", () => {
    assert.deepEqual(told({ state: "ready" }), ["shut", "slot.not_ready", "Loaded", "after 2"]);
  });

  it("distinguishes a slot that its manifest disables from one that no manifest configures", () => {
    for (const [reason, message] of [
      ["Disabled", "slot primary is disabled"],
      ["NotConfigured", "slot primary is disabled: no manifest configures it"],
    ] as const) {
      const slot = slotOf({ spec: { enabled: false }, status: { conditions: [condition("Ready", "True", reason)] } });
      const availability = availabilityOf(slot, "main", { operator: "live", now });
      assert.equal(availability.kind === "closed" ? availability.failure.message : "", message);
    }
  });

  const rows: readonly (readonly [
    what: string,
    sketch: SlotSketch | undefined,
    around: Partial<AvailabilityContext>,
    answer: unknown,
  ])[] = [
    ["it was never published", undefined, {}, ["shut", "slot.not_ready", "NotPublished", "after 2"]],
    ["it is disabled", { spec: { enabled: false } }, {}, ["closed", "slot.disabled", "Disabled", "never"]],
    [
      "it is disabled for want of a manifest",
      { spec: { enabled: false }, status: { conditions: [condition("Ready", "True", "NotConfigured")] } },
      {},
      ["closed", "slot.disabled", "NotConfigured", "never"],
    ],
    [
      "somebody unloaded it",
      { status: { conditions: [condition("Available", "False", "Unloaded")] } },
      {},
      ["closed", "slot.not_ready", "Unloaded", "never"],
    ],
    [
      "its group is lent, until then",
      { status: { lentUntil: inMs(5_400_000) } },
      {},
      ["closed", "slot.not_ready", "Lent", "after 5400"],
    ],
    [
      "its group is lent, and it still answers what comes",
      { port: 8081, status: { lentUntil: inMs(5_400_000) } },
      {},
      8081,
    ],
    [
      "its group was lent until now",
      { status: { lentUntil: inMs(0) } },
      {},
      ["shut", "slot.not_ready", "ScaledToZero", "after 2"],
    ],
    [
      "the machine was booted since",
      { port: 8081 },
      { operator: "unproven" },
      ["shut", "slot.not_ready", "OperatorLost", "after 2"],
    ],
    [
      "an operator elsewhere has published it, and its Pod runs where the cluster put it",
      { state: "ready", status: { processes: [pod] } },
      { operator: "unproven" },
      8080,
    ],
    ["the operator is lost: the engine may still be there", { port: 8081 }, { operator: "stale" }, 8081],
    ["no operator has said anything: the engine may still be there", { port: 8081 }, { operator: "absent" }, 8081],
    ["it failed, and is tried again in 10 s", failing(1, 10_000), {}, ["shut", "slot.failed", "Exited", "after 10"]],
    ["it failed, and is tried again in more", failing(1, 10_001), {}, ["closed", "slot.failed", "Exited", "after 11"]],
    [
      "it failed, and should have been tried again",
      failing(2, -5000),
      {},
      ["shut", "slot.failed", "Exited", "after 1"],
    ],
    ["it failed the third time in a row", failing(3, 1000), {}, ["closed", "slot.failed", "Exited", "after 1"]],
    [
      "it failed, and nobody says when it is tried again",
      failing(1, undefined),
      {},
      ["closed", "slot.failed", "Exited", "never"],
    ],
    [
      "it needs a person",
      failing(1, undefined, [condition("Stalled", "True", "ModelNotFound")]),
      {},
      ["closed", "slot.failed", "ModelNotFound", "never"],
    ],
    [
      "it needs a person, though a retry was planned",
      failing(1, 1000, [condition("Stalled", "True", "ModelNotFound")]),
      {},
      ["closed", "slot.failed", "ModelNotFound", "never"],
    ],
  ];
  for (const [what, sketch, around, answer] of rows) {
    it(`where ${what}`, () => assert.deepEqual(told(sketch, around), answer));
  }

  it("has the time of a failed slot's next attempt, and Berth's message for the failure", () => {
    const found = availabilityOf(slotOf(failing(1, 4000)), "main", { operator: "live", now });
    assert.ok(found.kind === "shut" && found.reopensInMs === 4000);
    assert.deepEqual(found.failure.details, {
      slot: "primary",
      state: "error",
      reason: "Exited",
      message: "its engine exited",
      next_retry_at: inMs(4000),
    });
    const { status } = failing(1, 4000);
    for (const [reason, why] of [
      ["NobodyKnows", "the reason is NobodyKnows"],
      ["Unschedulable", "no node of the cluster takes its Pod"],
    ] as const) {
      const lastError = { reason, message: "/root/x said boom", time: inMs(0) };
      const slot = slotOf({ state: "error", status: { ...status, lastError } });
      const other = availabilityOf(slot, "main", { operator: "live", now });
      assert.ok(other.kind !== "open");
      assert.equal(other.failure.message, `slot primary has failed: ${why}`);
    }
  });
});

it("tells apart the engines that had one address in turn: processes, containers and Pods, and each of their starts", () => {
  const startedAt = inMs(0);
  const starts = [
    { startedAt, pid: 1 },
    { startedAt, pid: 2 },
    { startedAt, containerId: "c1" },
    { startedAt, containerId: "c2" },
    { startedAt, podName: "primary-main-0-a" },
    { startedAt, podName: "primary-main-0-b" },
    { startedAt: inMs(1000), podName: "primary-main-0-b" },
  ];
  const { podName: _name, ...place } = pod;
  const names = starts.flatMap((start) => {
    const slot = slotOf({ state: "ready", status: { processes: [{ ...place, ...start }] } });
    const found = availabilityOf(slot, "main", { operator: "live", now });
    assert.ok(found.kind === "open");
    return found.endpoints.map(({ process }) => process);
  });
  assert.equal(new Set(names).size, starts.length);
});

describe("a slot with two processes", () => {
  const two: SlotSketch = { port: 8081, rerankPort: 8082, spec: { model: { default: "m", rerank: "r" } } };

  it("sends each capability to the process that has it", () => {
    const slot = slotOf(two);
    assert.deepEqual(
      [roleFor(slot, "rerank"), roleFor(slot, "embeddings"), roleFor(slot, "chat")],
      ["rerank", "main", "main"],
    );
    assert.deepEqual([told(two), told(two, {}, "rerank")], [8081, 8082]);
    assert.equal(roleFor(slotOf({ port: 8081 }), "rerank"), "main");
  });

  it("serves with one process while the other is absent, and names the absent one", () => {
    const one: SlotSketch = { port: 8081, spec: { model: { default: "m", rerank: "r" } } };
    assert.equal(told(one), 8081);
    const found = availabilityOf(slotOf(one), roleFor(slotOf(one), "rerank"), { operator: "live", now });
    assert.ok(found.kind === "shut");
    assert.equal(found.failure.details?.["role"], "rerank");
  });
});

it("checkCapability refuses capabilities that the engine is known to lack", () => {
  const slot = slotOf({ port: 1, status: { capabilities: ["embeddings"] } });
  checkCapability(slot, "embeddings");
  assert.throws(
    () => checkCapability(slot, "chat"),
    (error) => error instanceof ApiError && error.code === "dispatch.capability_mismatch",
  );
  checkCapability(slotOf({ status: { capabilities: [] } }), "chat");
  checkCapability(slotOf(undefined), "chat");
});
