import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { conditionSchema, type Condition } from "../../../src/api/conditions.ts";
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

/** A slot in a few words: its port, or whether a request waits, and the error that it would get. */
function told(
  sketch: SlotSketch | undefined,
  { role = "main", ...around }: Partial<AvailabilityContext> & { role?: "main" | "rerank" } = {},
): unknown {
  const found = availabilityOf(slotOf(sketch), role, { operator: "live", now, ...around });
  if (found.kind === "open") return found.endpoints[0]?.port;
  const { code, details, headers } = found.failure;
  assert.doesNotMatch(
    JSON.stringify(found.failure.envelope()),
    /exited with code|secret/,
    "the operator's words stay here",
  );
  const never = headers["x-should-retry"] === "false" ? "never" : "?";
  return [found.kind, code, details?.["reason"], "retry-after" in headers ? `after ${headers["retry-after"]}` : never];
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

const waits = (reason: string): unknown => ["shut", "slot.not_ready", reason, "after 2"];
const failed = (kind: "shut" | "closed", again: string, reason = "Exited"): unknown => [
  kind,
  "slot.failed",
  reason,
  again,
];
const stalled = (reason: string): Condition => condition("Stalled", "True", reason);
/** A slot whose main process serves while the other one fails. */
const halfFailing = (failures: number, nextMs: number | undefined, conditions: Condition[] = []): SlotSketch => ({
  ...failing(failures, nextMs, conditions),
  state: "ready",
  port: 8081,
  spec: { model: { default: "m", rerank: "r" } },
});
/** A slot that holds `small` and may be swapped to `large`, which failed so often. */
const choosing = (failures = 0, retryMs = 0, isStalled = false): SlotSketch => {
  const failure = { ref: "large", reason: "Exited", message: "/secret", at: inMs(0), retryAt: inMs(retryMs) };
  const refs = failures === 0 ? [] : [{ ...failure, failures, isStalled }];
  const onRequest = { usual: "small", refs: ["small", "large"], chosen: "small", since: inMs(0), failed: refs };
  return { port: 8081, status: { model: { ref: "small", origin: "spec" }, onRequest } };
};
const lent = (untilMs: number): NonNullable<SlotSketch["status"]> => ({ lentUntil: inMs(untilMs) });
const notConfigured = condition("Ready", "True", "NotConfigured");

describe("availabilityOf", () => {
  const byState = {
    offline: waits("ScaledToZero"),
    pulling: waits("Pulling"),
    starting: waits("Starting"),
    warming: waits("Warming"),
    ready: 8081,
    serving: 8081,
    idle: 8081,
    unloading: waits("Unloading"),
    error: failed("closed", "never", "Failed"),
  } as const;
  for (const state of slotStates)
    it(`of a slot that is ${state}`, () => {
      // It still answers while it is being unloaded.
      const hasPort = byState[state] === 8081 || state === "unloading";
      assert.deepEqual(told({ state, ...(hasPort ? { port: 8081 } : {}) }), byState[state]);
    });

  const rows: readonly (readonly [
    what: string,
    sketch: SlotSketch | undefined,
    around: Parameters<typeof told>[1],
    answer: unknown,
  ])[] = [
    ["it was never published", undefined, {}, waits("NotPublished")],
    ["it is ready, and no process is published", { state: "ready" }, {}, waits("Loaded")],
    ["it is disabled", { spec: { enabled: false } }, {}, ["closed", "slot.disabled", "Disabled", "never"]],
    [
      "it is disabled for want of a manifest",
      { spec: { enabled: false }, status: { conditions: [notConfigured] } },
      {},
      ["closed", "slot.disabled", "NotConfigured", "never"],
    ],
    [
      "its manifest was never valid, which is no slot that is disabled",
      { ...failing(0, undefined, [stalled("InvalidSpec")]), spec: { enabled: false } },
      {},
      failed("closed", "never", "InvalidSpec"),
    ],
    [
      "somebody unloaded it",
      { status: { conditions: [condition("Available", "False", "Unloaded")] } },
      {},
      ["closed", "slot.not_ready", "Unloaded", "never"],
    ],
    [
      "its group is lent, until then",
      { status: lent(5_400_000) },
      {},
      ["closed", "slot.not_ready", "Lent", "after 5400"],
    ],
    ["its group is lent, and it still answers what comes", { port: 8081, status: lent(5_400_000) }, {}, 8081],
    ["its group was lent until now", { status: lent(0) }, {}, waits("ScaledToZero")],
    ["the machine was booted since", { port: 8081 }, { operator: "unproven" }, waits("OperatorLost")],
    [
      "an operator elsewhere has published it, and its Pod runs where the cluster put it",
      { state: "ready", status: { processes: [pod] } },
      { operator: "unproven" },
      8080,
    ],
    ["the operator is lost: the engine may still be there", { port: 8081 }, { operator: "stale" }, 8081],
    ["no operator has said anything: the engine may still be there", { port: 8081 }, { operator: "absent" }, 8081],
    ["it failed, and is tried again in 10 s", failing(1, 10_000), {}, failed("shut", "after 10")],
    ["it failed, and is tried again in more", failing(1, 10_001), {}, failed("closed", "after 11")],
    ["it failed, and should have been tried again", failing(2, -5000), {}, failed("shut", "after 1")],
    ["it failed the third time in a row", failing(3, 1000), {}, failed("closed", "after 1")],
    ["it failed, and nobody says when it is tried again", failing(1, undefined), {}, failed("closed", "never")],
    [
      "it needs a person, though a retry was planned",
      failing(1, 1000, [stalled("ModelNotFound")]),
      {},
      failed("closed", "never", "ModelNotFound"),
    ],
    [
      "it is asked for a model that it does not offer",
      choosing(),
      { ref: "other" },
      ["closed", "slot.not_ready", "Changed", "after 2"],
    ],
    ["it holds the model that is asked for", choosing(), { ref: "small" }, 8081],
    ["it holds another model than the one that is asked for", choosing(), { ref: "large" }, waits("Swapping")],
    ["that model failed, and is tried again soon", choosing(1, 9000), { ref: "large" }, failed("shut", "after 9")],
    ["that model failed, and is tried later", choosing(1, 60_000), { ref: "large" }, failed("closed", "after 60")],
    ["that model failed for the third time", choosing(3, 9000), { ref: "large" }, failed("closed", "after 9")],
    ["that model needs a person", choosing(1, 9000, true), { ref: "large" }, failed("closed", "never")],
    ["the next attempt of that model is due", choosing(3, -1), { ref: "large" }, waits("Swapping")],
  ];
  for (const [what, sketch, around, answer] of rows)
    it(`where ${what}`, () => assert.deepEqual(told(sketch, around), answer));

  it("tells apart a slot that its manifest disables and one that no manifest configures", () => {
    for (const [conditions, message] of [
      [[], "slot primary is disabled"],
      [[notConfigured], "slot primary is disabled: no manifest configures it"],
    ] as const) {
      const slot = slotOf({ spec: { enabled: false }, status: { conditions: [...conditions] } });
      const found = availabilityOf(slot, "main", { operator: "live", now });
      assert.equal(found.kind === "closed" ? found.failure.message : "", message);
    }
  });

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
    for (const [reason, why] of [
      ["NobodyKnows", "the reason is NobodyKnows"],
      ["Unschedulable", "no node of the cluster takes its Pod"],
    ] as const) {
      const lastError = { reason, message: "/root/x said boom", time: inMs(0) };
      const slot = slotOf({ state: "error", status: { ...failing(1, 4000).status, lastError } });
      const other = availabilityOf(slot, "main", { operator: "live", now });
      assert.ok(other.kind !== "open");
      assert.equal(other.failure.message, `slot primary has failed: ${why}`);
    }
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
});

describe("a slot with two processes", () => {
  const one: SlotSketch = { port: 8081, spec: { model: { default: "m", rerank: "r" } } };
  const two: SlotSketch = { ...one, rerankPort: 8082 };

  it("sends each capability to the process that has it", () => {
    const roles = (["rerank", "embeddings", "chat"] as const).map((each) => roleFor(slotOf(two), each));
    assert.deepEqual(roles, ["rerank", "main", "main"]);
    assert.deepEqual([told(two), told(two, { role: "rerank" })], [8081, 8082]);
    assert.equal(roleFor(slotOf({ port: 8081 }), "rerank"), "main");
  });

  it("serves with one process while the other is absent, and names the absent one", () => {
    assert.equal(told(one), 8081);
    for (const sketch of [one, halfFailing(3, 5000)]) {
      const found = availabilityOf(slotOf(sketch), "rerank", { operator: "live", now });
      assert.ok(found.kind !== "open");
      assert.equal(found.failure.details?.["role"], "rerank");
    }
  });

  const rows: readonly (readonly [what: string, sketch: SlotSketch, answer: unknown])[] = [
    ["only starts", halfFailing(0, undefined), waits("ready")],
    [
      "only starts, though an edit broke the manifest",
      halfFailing(1, undefined, [stalled("InvalidSpec")]),
      waits("ready"),
    ],
    ["failed, and is tried again soon", halfFailing(1, 5000), ["shut", "slot.not_ready", "Exited", "after 5"]],
    ["failed, and is tried later", halfFailing(1, 3_600_000), ["closed", "slot.not_ready", "Exited", "after 3600"]],
    ["failed three times in a row", halfFailing(3, 5000), ["closed", "slot.not_ready", "Exited", "after 5"]],
    [
      "is tried once more after three failures",
      halfFailing(3, undefined),
      ["closed", "slot.not_ready", "Exited", "after 2"],
    ],
    ["needs a person", halfFailing(1, undefined, [stalled("Exited")]), ["closed", "slot.not_ready", "Exited", "never"]],
  ];
  for (const [what, sketch, answer] of rows)
    it(`of which the second ${what}`, () => assert.deepEqual(told(sketch, { role: "rerank" }), answer));
});

it("checkCapability refuses capabilities that the engine is known to lack", () => {
  const slot = slotOf({ port: 1, status: { capabilities: ["embeddings"] } });
  checkCapability(slot, "embeddings");
  assert.throws(() => checkCapability(slot, "chat"), { code: "dispatch.capability_mismatch" });
  checkCapability(slotOf({ status: { capabilities: [] } }), "chat");
  checkCapability(slotOf(undefined), "chat");
});
