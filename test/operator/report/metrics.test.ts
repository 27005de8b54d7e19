import assert from "node:assert/strict";
import { test } from "node:test";
import { OperatorMetrics } from "../../../src/operator/report/metrics.ts";
import { published } from "../fixture.ts";
import { operatorMetrics } from "../../../src/api/metrics/operator.ts";
import { groupMetrics } from "../../../src/api/metrics/groups.ts";
import { metricProblems } from "../../support/metric-lint.ts";

const quiet = (): { depth: number; oldestAgeMs: number } => ({ depth: 0, oldestAgeMs: 0 });

async function text(metrics: OperatorMetrics): Promise<string> {
  return String((await metrics.page.render()).body);
}

/** The samples of Berth's own families, without the buckets of histograms. */
async function samples(metrics: OperatorMetrics): Promise<string[]> {
  return (await text(metrics)).split("\n").filter((line) => line.startsWith("berth_") && !line.includes("_bucket{"));
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
    memory: { hostBytes: 711, devices: [{ id: "0000:00:06.0", bytes: 9208 }] },
    counters: { transitions: { starting: 4 }, restarts: 2 },
  });
  metrics.published(before, undefined);
  metrics.published(
    published({
      lastLoad: { ...lastLoad, warmSeconds: 3 },
      memory: { hostBytes: 700, devices: [] },
      counters: { transitions: { starting: 4, ready: 1 }, restarts: 3 },
    }),
    before,
  );
  const lines = (await text(metrics)).split("\n");
  assert.deepEqual(
    new Set(lines.filter((line) => /^# (HELP|TYPE) berth_/.test(line))),
    new Set(
      Object.values({ ...operatorMetrics, ...groupMetrics }).flatMap(({ name, help, type }) => [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} ${type}`,
      ]),
    ),
  );
  assert.deepEqual(await samples(metrics), [
    "berth_pull_bytes_total 0",
    "berth_pull_stalls_total 0",
    'berth_pull_idle_seconds{ref="owner/model"} 12.5',
    'berth_reconcile_total{kind="Registry",outcome="error"} 1',
    'berth_reconcile_total{kind="Group",outcome="error"} 0',
    'berth_reconcile_total{kind="Pull",outcome="error"} 0',
    'berth_reconcile_total{kind="Slot",outcome="error"} 0',
    'berth_reconcile_total{kind="Slot",outcome="success"} 1',
    'berth_reconcile_total{kind="Slot",outcome="requeue"} 1',
    'berth_reconcile_duration_seconds_sum{kind="Slot"} 0.01',
    'berth_reconcile_duration_seconds_count{kind="Slot"} 2',
    'berth_reconcile_duration_seconds_sum{kind="Registry"} 0.5',
    'berth_reconcile_duration_seconds_count{kind="Registry"} 1',
    'berth_slot_transitions_total{slot="primary",to="starting"} 4',
    'berth_slot_transitions_total{slot="primary",to="ready"} 1',
    'berth_slot_restarts_total{slot="primary",reason="Earlier"} 2',
    'berth_slot_restarts_total{slot="primary",reason="Exited"} 1',
    'berth_slot_failures{slot="primary"} 0',
    'berth_slot_load_seconds_sum{slot="primary",phase="warm"} 3',
    'berth_slot_load_seconds_count{slot="primary",phase="warm"} 1',
    ...["offline", "pulling", "starting", "warming", "ready", "serving", "idle", "unloading", "error"].map(
      (state) => `berth_operator_slot_state{slot="primary",state="${state}"} ${state === "ready" ? 1 : 0}`,
    ),
    'berth_slot_replicas{slot="primary",state="wanted"} 1',
    'berth_slot_replicas{slot="primary",state="ready"} 1',
    'berth_slot_memory_bytes{slot="primary",device="host"} 700',
    "berth_reconcile_queue_depth 3",
    "berth_reconcile_queue_oldest_seconds 1.5",
  ]);
});

test("a slot has the series of its failures in a row before its first failure", async () => {
  const metrics = new OperatorMetrics(quiet);
  const first = published();
  metrics.published(first, undefined);
  const ofAlerts = async (): Promise<string[]> =>
    (await samples(metrics)).filter((line) => line.startsWith("berth_slot_failures{"));
  assert.deepEqual(await ofAlerts(), ['berth_slot_failures{slot="primary"} 0']);
  metrics.published(published({ state: "error", failures: 4 }), first);
  assert.equal((await ofAlerts())[0], 'berth_slot_failures{slot="primary"} 4');
});

test("memory is that of the machine with engines, and none where engines run elsewhere", async () => {
  const hostLines = async (metrics: OperatorMetrics): Promise<string[]> =>
    (await text(metrics)).split("\n").filter((line) => line.startsWith("berth_host_"));
  const here = new OperatorMetrics(quiet, {
    memory: async () => await Promise.resolve({ totalBytes: 8, availableBytes: 6 }),
  });
  assert.deepEqual(await hostLines(here), ["berth_host_memory_total_bytes 8", "berth_host_memory_available_bytes 6"]);
  assert.deepEqual(await hostLines(new OperatorMetrics(quiet)), []);
});

test("a slot that is gone leaves no series behind", async () => {
  const metrics = new OperatorMetrics(quiet);
  const before = published();
  metrics.published(before, undefined);
  metrics.deleted("primary", undefined);
  assert.deepEqual(
    (await samples(metrics)).filter((line) => line.includes("primary")),
    [],
  );
});

test("the page is as Prometheus' linter wants it", async () => {
  const told = await text(new OperatorMetrics(quiet));
  assert.match(told, /^nodejs_active_resources\{/m);
  assert.deepEqual(metricProblems(told), []);
});
