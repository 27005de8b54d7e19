import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { conditionSchema, type Condition } from "../../../src/api/conditions.ts";
import { slotStates } from "../../../src/api/states.ts";
import { availabilityOf, type AvailabilityContext } from "../../../src/gateway/slots/availability.ts";
import { checkCapability, roleFor } from "../../../src/gateway/routing/prepare.ts";
import { buildIndex, type KnownSlot } from "../../../src/gateway/routing/index.ts";
import { publishedSlot, type SlotSketch } from "../../support/gateway.ts";

const now = Date.parse("2026-01-01T00:00:00Z");
const inMs = (ms: number): string => new Date(now + ms).toISOString();
function slotOf(sketch: SlotSketch | undefined, name = "primary"): KnownSlot {
  const slots = sketch === undefined ? [] : [publishedSlot(name, sketch, 1)];
  const index = buildIndex(
    { slots: () => slots, registry: () => ({ schema: 1, models: [], upstreams: [], resources: [] }) },
    new Map(),
  );
  const slot = index.slots.get(name);
  assert.ok(slot !== undefined);
  return slot;
}

/** A slot in a few words: its port, or whether a request waits, the error that it would get, and when to come again. */
function told(
  sketch: SlotSketch | undefined,
  { role = "main", ...around }: Partial<AvailabilityContext> & { role?: "main" | "rerank" } = {},
): string {
  const found = availabilityOf(slotOf(sketch), role, { operator: "live", now, ...around });
  if (found.kind === "open") return String(found.endpoints[0]?.port);
  const { code, details, headers } = found.failure;
  assert.doesNotMatch(
    JSON.stringify(found.failure.envelope()),
    /exited with code|secret/,
    "the operator's words stay here",
  );
  const never = headers["x-should-retry"] === "false" ? "never" : "?";
  const again = "retry-after" in headers ? `after ${headers["retry-after"]}` : never;
  return `${found.kind} ${code} ${String(details?.["reason"])} ${again}`;
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

const waits = (reason: string): string => `shut slot.not_ready ${reason} after 2`;
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
const disabled = { enabled: false };
const notConfigured = condition("Ready", "True", "NotConfigured");
const unconfigured: SlotSketch = { spec: disabled, status: { conditions: [notConfigured] } };

describe("availabilityOf", () => {
  const byState = {
    offline: waits("ScaledToZero"),
    pulling: waits("Pulling"),
    starting: waits("Starting"),
    warming: waits("Warming"),
    ready: "8081",
    serving: "8081",
    idle: "8081",
    unloading: waits("Unloading"),
    error: "closed slot.failed Failed never",
  } as const;
  it("follows the state of the slot", () => {
    for (const state of slotStates) {
      // It still answers while it is being unloaded.
      const hasPort = byState[state] === "8081" || state === "unloading";
      assert.equal(told({ state, ...(hasPort ? { port: 8081 } : {}) }), byState[state], state);
    }
  });

  const unloaded = condition("Available", "False", "Unloaded");
  const asked = condition("Available", "False", "UnloadedUntilRequest");
  const neverValid: SlotSketch = { ...failing(0, undefined, [stalled("InvalidSpec")]), spec: disabled };
  const unproven = { operator: "unproven" } as const;
  const rows: readonly (readonly [
    what: string,
    answer: string,
    sketch: SlotSketch | undefined,
    around?: Parameters<typeof told>[1],
  ])[] = [
    ["it was never published", waits("NotPublished"), undefined],
    ["it is ready, and no process is published", waits("Loaded"), { state: "ready" }],
    ["it is disabled", "closed slot.disabled Disabled never", { spec: disabled }],
    ["no manifest configures it", "closed slot.disabled NotConfigured never", unconfigured],
    ["its manifest was never valid", "closed slot.failed InvalidSpec never", neverValid],
    ["somebody unloaded it", "closed slot.not_ready Unloaded never", { status: { conditions: [unloaded] } }],
    ["its group is lent", "closed slot.not_ready Lent after 5400", { status: lent(5_400_000) }],
    ["its group is lent, and it still answers what comes", "8081", { port: 8081, status: lent(5_400_000) }],
    [
      "a person has unloaded it until a request comes",
      waits("UnloadedUntilRequest"),
      { status: { conditions: [asked] } },
    ],
    ["its group was lent until now", waits("ScaledToZero"), { status: lent(0) }],
    ["the machine was booted since", waits("OperatorLost"), { port: 8081 }, unproven],
    ["its Pod runs where the cluster put it", "8080", { state: "ready", status: { processes: [pod] } }, unproven],
    ["the operator is lost: the engine may still be there", "8081", { port: 8081 }, { operator: "stale" }],
    ["no operator has said anything: it may still be there", "8081", { port: 8081 }, { operator: "absent" }],
    ["it failed, and is tried again in 10 s", "shut slot.failed Exited after 10", failing(1, 10_000)],
    ["it failed, and is tried again in more", "closed slot.failed Exited after 11", failing(1, 10_001)],
    ["it failed, and should have been tried again", "shut slot.failed Exited after 1", failing(2, -5000)],
    ["it failed the third time in a row", "closed slot.failed Exited after 1", failing(3, 1000)],
    ["it failed, and nobody says until when", "closed slot.failed Exited never", failing(1, undefined)],
    ["it needs a person", "closed slot.failed NoModel never", failing(1, 1000, [stalled("NoModel")])],
    ["it does not offer that model", "closed slot.not_ready Changed after 2", choosing(), { ref: "other" }],
    ["it holds that model", "8081", choosing(), { ref: "small" }],
    ["it holds another model", waits("Swapping"), choosing(), { ref: "large" }],
    ["that model is tried again soon", "shut slot.failed Exited after 9", choosing(1, 9000), { ref: "large" }],
    ["that model is tried later", "closed slot.failed Exited after 60", choosing(1, 60_000), { ref: "large" }],
    ["that model failed three times", "closed slot.failed Exited after 9", choosing(3, 9000), { ref: "large" }],
    ["that model needs a person", "closed slot.failed Exited never", choosing(1, 9000, true), { ref: "large" }],
    ["the next attempt of that model is due", waits("Swapping"), choosing(3, -1), { ref: "large" }],
  ];
  for (const [what, answer, sketch, around] of rows)
    it(`where ${what}`, () => assert.equal(told(sketch, around), answer));

  it("tells apart a slot that its manifest disables and one that no manifest configures", () => {
    for (const [sketch, message] of [
      [{ spec: disabled }, "slot primary is disabled"],
      [unconfigured, "slot primary is disabled: no manifest configures it"],
    ] as const) {
      const found = availabilityOf(slotOf(sketch), "main", { operator: "live", now });
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
    assert.deepEqual([told(two), told(two, { role: "rerank" })], ["8081", "8082"]);
    assert.equal(roleFor(slotOf({ port: 8081 }), "rerank"), "main");
  });

  it("serves with one process while the other is absent, and names the absent one", () => {
    assert.equal(told(one), "8081");
    for (const sketch of [one, halfFailing(3, 5000)]) {
      const found = availabilityOf(slotOf(sketch), "rerank", { operator: "live", now });
      assert.ok(found.kind !== "open");
      assert.equal(found.failure.details?.["role"], "rerank");
    }
  });

  const broken = [stalled("InvalidSpec")];
  const rows: readonly (readonly [what: string, answer: string, sketch: SlotSketch])[] = [
    ["only starts", waits("ready"), halfFailing(0, undefined)],
    ["only starts, though an edit broke the manifest", waits("ready"), halfFailing(1, undefined, broken)],
    ["failed, and is tried again soon", "shut slot.not_ready Exited after 5", halfFailing(1, 5000)],
    ["failed, and is tried later", "closed slot.not_ready Exited after 3600", halfFailing(1, 3_600_000)],
    ["failed three times in a row", "closed slot.not_ready Exited after 5", halfFailing(3, 5000)],
    ["is tried once more after three failures", "closed slot.not_ready Exited after 2", halfFailing(3, undefined)],
    ["needs a person", "closed slot.not_ready Exited never", halfFailing(1, undefined, [stalled("Exited")])],
  ];
  for (const [what, answer, sketch] of rows)
    it(`of which the second ${what}`, () => assert.equal(told(sketch, { role: "rerank" }), answer));
});

it("checkCapability refuses capabilities that the engine is known to lack", () => {
  const slot = slotOf({ port: 1, status: { capabilities: ["embeddings"] } });
  checkCapability(slot, "embeddings");
  assert.throws(() => checkCapability(slot, "chat"), { code: "dispatch.capability_mismatch" });
  checkCapability(slotOf({ status: { capabilities: [] } }), "chat");
  checkCapability(slotOf(undefined), "chat");
});
