import assert from "node:assert/strict";
import { test } from "node:test";
import { OperatorMetrics } from "../../src/operator/metrics.ts";
import { published } from "./fixture.ts";
import { metricProblems } from "../support/metric-lint.ts";

/** The families of Berth's own, without those of Node itself and without histogram buckets. */
async function page(metrics: OperatorMetrics): Promise<string[]> {
  const text = await metrics.registry.metrics();
  return text.split("\n").filter((line) => line.includes("berth_") && !line.includes("_bucket{"));
}

test("the page holds every family, and what two published statuses have told", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 3, oldestAgeMs: 1500 }));
  metrics.reconciled("Slot", "success", 0.004);
  metrics.reconciled("Slot", "requeue", 0.006);
  metrics.reconciled("Registry", "error", 0.5);
  const lastLoad = { startedAt: "2026-01-01T00:00:00.000Z", startSeconds: 2 };
  const before = published({ state: "warming", lastLoad, counters: { transitions: { starting: 4 }, restarts: 2 } });
  metrics.published(before, undefined);
  metrics.movedIllegally({ slot: "primary", from: "ready", to: "offline", reason: "Stopped" });
  metrics.published(
    published({
      lastLoad: { ...lastLoad, warmSeconds: 3 },
      counters: { transitions: { starting: 4, ready: 1 }, restarts: 3 },
    }),
    before,
  );
  assert.deepEqual(await page(metrics), [
    "# HELP berth_reconcile_total Reconciles by outcome",
    "# TYPE berth_reconcile_total counter",
    'berth_reconcile_total{kind="Slot",outcome="success"} 1',
    'berth_reconcile_total{kind="Slot",outcome="requeue"} 1',
    'berth_reconcile_total{kind="Registry",outcome="error"} 1',
    "# HELP berth_reconcile_duration_seconds Duration of a reconcile",
    "# TYPE berth_reconcile_duration_seconds histogram",
    'berth_reconcile_duration_seconds_sum{kind="Slot"} 0.01',
    'berth_reconcile_duration_seconds_count{kind="Slot"} 2',
    'berth_reconcile_duration_seconds_sum{kind="Registry"} 0.5',
    'berth_reconcile_duration_seconds_count{kind="Registry"} 1',
    "# HELP berth_slot_transitions_total Moves of a slot into a state",
    "# TYPE berth_slot_transitions_total counter",
    'berth_slot_transitions_total{slot="primary",to="starting"} 4',
    'berth_slot_transitions_total{slot="primary",to="ready"} 1',
    "# HELP berth_slot_illegal_transitions_total Moves that the table of states forbids: faults of the operator",
    "# TYPE berth_slot_illegal_transitions_total counter",
    'berth_slot_illegal_transitions_total{slot="primary",from="ready",to="offline"} 1',
    "# HELP berth_slot_restarts_total Engine starts that nobody asked for",
    "# TYPE berth_slot_restarts_total counter",
    'berth_slot_restarts_total{slot="primary"} 3',
    "# HELP berth_slot_load_seconds Time a load spent per phase",
    "# TYPE berth_slot_load_seconds histogram",
    'berth_slot_load_seconds_sum{slot="primary",phase="warm"} 3',
    'berth_slot_load_seconds_count{slot="primary",phase="warm"} 1',
    "# HELP berth_operator_slot_state 1 for the state the operator has published last",
    "# TYPE berth_operator_slot_state gauge",
    ...["offline", "pulling", "starting", "warming", "ready", "serving", "idle", "unloading", "error"].map(
      (state) => `berth_operator_slot_state{slot="primary",state="${state}"} ${state === "ready" ? 1 : 0}`,
    ),
    "# HELP berth_slot_memory_bytes What the engine's processes hold, on the host and on each GPU",
    "# TYPE berth_slot_memory_bytes gauge",
    "# HELP berth_reconcile_queue_depth Keys that wait for a reconcile",
    "# TYPE berth_reconcile_queue_depth gauge",
    "berth_reconcile_queue_depth 3",
    "# HELP berth_reconcile_queue_oldest_seconds How long the longest-waiting key has waited",
    "# TYPE berth_reconcile_queue_oldest_seconds gauge",
    "berth_reconcile_queue_oldest_seconds 1.5",
  ]);
});

test("a slot that is gone leaves no series behind", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  const before = published();
  metrics.published(before, undefined);
  metrics.movedIllegally({ slot: "primary", from: "ready", to: "offline", reason: "Stopped" });
  metrics.deleted("primary", undefined);
  assert.deepEqual(
    (await page(metrics)).filter((line) => line.includes("primary")),
    [],
  );
});

test("the page is as Prometheus' linter wants it", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  const text = await metrics.registry.metrics();
  assert.match(text, /^nodejs_active_resources\{/m);
  assert.deepEqual(metricProblems(text), []);
});

test("buckets of reconciles and of loads are those that dashboards know", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  metrics.reconciled("Slot", "success", 40);
  const text = await metrics.registry.metrics();
  const bounds = [...text.matchAll(/^berth_reconcile_duration_seconds_bucket\{le="([^"]+)",kind="Slot"\} \d+$/gm)];
  assert.equal(
    bounds.map(([, bound]) => bound).join(),
    "0.001,0.0025,0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,+Inf",
  );
});
