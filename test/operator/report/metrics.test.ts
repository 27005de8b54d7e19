import assert from "node:assert/strict";
import { test } from "node:test";
import { OperatorMetrics } from "../../../src/operator/report/metrics.ts";
import { published } from "../fixture.ts";
import { groupMetrics } from "../../../src/api/metrics/groups.ts";
import { metricProblems } from "../../support/metric-lint.ts";

/** The families of Berth's own, without those of Node itself and without histogram buckets. */
async function page(metrics: OperatorMetrics): Promise<string[]> {
  const text = String((await metrics.page.render()).body);
  return text.split("\n").filter((line) => line.includes("berth_") && !/_bucket\{|^berth_host_/.test(line));
}

test("the page holds every family, and the values of two published statuses", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 3, oldestAgeMs: 1500 }), {
    idlePulls: () => new Map([["owner/model", 12.5]]),
  });
  metrics.reconciled("Slot", "success", 0.004);
  metrics.reconciled("Slot", "requeue", 0.006);
  metrics.reconciled("Registry", "error", 0.5);
  const lastLoad = { startedAt: "2026-01-01T00:00:00.000Z", startSeconds: 2 };
  const lastError = { reason: "Exited", message: "it exited", time: "2026-01-01T00:00:00.000Z" };
  const before = published({
    state: "warming",
    lastLoad,
    lastError,
    counters: { transitions: { starting: 4 }, restarts: 2 },
  });
  metrics.published(before, undefined);
  metrics.countIllegalTransition({ slot: "primary" });
  metrics.published(
    published({
      lastLoad: { ...lastLoad, warmSeconds: 3 },
      counters: { transitions: { starting: 4, ready: 1 }, restarts: 3 },
    }),
    before,
  );
  assert.deepEqual(await page(metrics), [
    "# HELP berth_pull_bytes_total Bytes of models that came over the network",
    "# TYPE berth_pull_bytes_total counter",
    "berth_pull_bytes_total 0",
    "# HELP berth_pull_stalls_total Connections that were replaced because a server had sent nothing for too long",
    "# TYPE berth_pull_stalls_total counter",
    "berth_pull_stalls_total 0",
    "# HELP berth_pull_idle_seconds How long no byte of a model has come that is being fetched, over all attempts; 0 while its pull is paused",
    "# TYPE berth_pull_idle_seconds gauge",
    'berth_pull_idle_seconds{ref="owner/model"} 12.5',
    "# HELP berth_reconcile_total Reconciles by outcome",
    "# TYPE berth_reconcile_total counter",
    'berth_reconcile_total{kind="Registry",outcome="error"} 1',
    'berth_reconcile_total{kind="Group",outcome="error"} 0',
    'berth_reconcile_total{kind="Pull",outcome="error"} 0',
    'berth_reconcile_total{kind="Slot",outcome="error"} 0',
    'berth_reconcile_total{kind="Slot",outcome="success"} 1',
    'berth_reconcile_total{kind="Slot",outcome="requeue"} 1',
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
    "# HELP berth_slot_illegal_transitions_total Moves that the table of states forbids: faults of the operator, whose log names the states",
    "# TYPE berth_slot_illegal_transitions_total counter",
    'berth_slot_illegal_transitions_total{slot="primary"} 1',
    "# HELP berth_slot_restarts_total Engine starts without a request, by the reason of the failure before; Earlier: before this operator started",
    "# TYPE berth_slot_restarts_total counter",
    'berth_slot_restarts_total{slot="primary",reason="Earlier"} 2',
    'berth_slot_restarts_total{slot="primary",reason="Exited"} 1',
    "# HELP berth_slot_failures Failures of a slot's engines in a row; 0 after success, an edit or a restart that was asked for",
    "# TYPE berth_slot_failures gauge",
    'berth_slot_failures{slot="primary"} 0',
    "# HELP berth_drift_repaired_total Changes of others to running engines that the operator undid without a restart, such as a paused container",
    "# TYPE berth_drift_repaired_total counter",
    "# HELP berth_slot_load_seconds Time a load spent per phase",
    "# TYPE berth_slot_load_seconds histogram",
    'berth_slot_load_seconds_sum{slot="primary",phase="warm"} 3',
    'berth_slot_load_seconds_count{slot="primary",phase="warm"} 1',
    "# HELP berth_operator_slot_state 1 for the state the operator has published last",
    "# TYPE berth_operator_slot_state gauge",
    ...["offline", "pulling", "starting", "warming", "ready", "serving", "idle", "unloading", "error"].map(
      (state) => `berth_operator_slot_state{slot="primary",state="${state}"} ${state === "ready" ? 1 : 0}`,
    ),
    "# HELP berth_slot_replicas Main engines of a slot: wanted while it is loaded, and ready",
    "# TYPE berth_slot_replicas gauge",
    'berth_slot_replicas{slot="primary",state="wanted"} 1',
    'berth_slot_replicas{slot="primary",state="ready"} 1',
    "# HELP berth_slot_memory_bytes Memory of the engine's processes, on the host and on each GPU",
    "# TYPE berth_slot_memory_bytes gauge",
    "# HELP berth_fit_error_ratio How much an estimate of memory is above what was measured: 0.02 is two hundredths too much",
    "# TYPE berth_fit_error_ratio gauge",
    "# HELP berth_reconcile_queue_depth Keys that wait for a reconcile",
    "# TYPE berth_reconcile_queue_depth gauge",
    "berth_reconcile_queue_depth 3",
    "# HELP berth_reconcile_queue_oldest_seconds How long the longest-waiting key has waited",
    "# TYPE berth_reconcile_queue_oldest_seconds gauge",
    "berth_reconcile_queue_oldest_seconds 1.5",
    "# HELP berth_host_memory_total_bytes Memory of this machine, or of the control group around the operator that has the least left; absent where engines are Pods",
    "# TYPE berth_host_memory_total_bytes gauge",
    "# HELP berth_host_memory_available_bytes The part of it that is left for engines: free, or a cache of files that the kernel gives back",
    "# TYPE berth_host_memory_available_bytes gauge",
    "# HELP berth_gpu_memory_total_bytes Memory of a GPU of its own that the driver leaves to programs",
    "# TYPE berth_gpu_memory_total_bytes gauge",
    "# HELP berth_gpu_memory_free_bytes The part of it that was free at the last probe, at most a minute ago while somebody scrapes",
    "# TYPE berth_gpu_memory_free_bytes gauge",
    ...Object.values(groupMetrics).flatMap(({ name, help, type }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
    ]),
  ]);
});

test("a slot has the series that alerts compare before its first failure, and its failures in a row", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  const first = published();
  metrics.published(first, undefined);
  const ofAlerts = async (): Promise<string[]> =>
    (await page(metrics)).filter((line) => /^berth_slot_(failures|illegal_transitions_total)\{/.test(line));
  assert.deepEqual(await ofAlerts(), [
    'berth_slot_illegal_transitions_total{slot="primary"} 0',
    'berth_slot_failures{slot="primary"} 0',
  ]);
  metrics.published(published({ state: "error", failures: 4 }), first);
  assert.equal((await ofAlerts())[1], 'berth_slot_failures{slot="primary"} 4');
});

test("memory is that of the machine with engines, and none where engines run elsewhere", async () => {
  const queue = (): { depth: number; oldestAgeMs: number } => ({ depth: 0, oldestAgeMs: 0 });
  const hostLines = async (metrics: OperatorMetrics): Promise<string[]> =>
    String((await metrics.page.render()).body)
      .split("\n")
      .filter((line) => line.startsWith("berth_host_"));
  const here = new OperatorMetrics(queue, {
    memory: async () => await Promise.resolve({ totalBytes: 8, availableBytes: 6 }),
  });
  assert.deepEqual(await hostLines(here), ["berth_host_memory_total_bytes 8", "berth_host_memory_available_bytes 6"]);
  assert.deepEqual(await hostLines(new OperatorMetrics(queue)), []);
});

test("a slot that is gone leaves no series behind", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  const before = published();
  metrics.published(before, undefined);
  metrics.countIllegalTransition({ slot: "primary" });
  metrics.deleted("primary", undefined);
  assert.deepEqual(
    (await page(metrics)).filter((line) => line.includes("primary")),
    [],
  );
});

test("the page is as Prometheus' linter wants it", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  const text = String((await metrics.page.render()).body);
  assert.match(text, /^nodejs_active_resources\{/m);
  assert.deepEqual(metricProblems(text), []);
});

test("buckets of reconciles and of loads stay as dashboards expect them", async () => {
  const metrics = new OperatorMetrics(() => ({ depth: 0, oldestAgeMs: 0 }));
  metrics.reconciled("Slot", "success", 40);
  const text = String((await metrics.page.render()).body);
  const bounds = [...text.matchAll(/^berth_reconcile_duration_seconds_bucket\{le="([^"]+)",kind="Slot"\} \d+$/gm)];
  assert.equal(
    bounds.map(([, bound]) => bound).join(),
    "0.001,0.0025,0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10,30,+Inf",
  );
});
