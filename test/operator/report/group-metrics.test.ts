import assert from "node:assert/strict";
import { test } from "node:test";
import type { GroupStatus } from "../../../src/api/group-status.ts";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { GroupMetrics } from "../../../src/operator/report/group-metrics.ts";

const member = (slot: string, state: "waiting" | "loaded" | "unloaded" = "loaded"): GroupStatus["members"][number] => {
  return { slot, state, since: "2026-01-01T00:00:00.000Z", needs: [] };
};
const status: GroupStatus = {
  name: "gpu",
  isDeclared: true,
  budget: [{ resource: "0000:01:00.0", total: 24, used: 10 }],
  members: [member("a", "waiting")],
  problems: [],
};

async function lines(page: MetricPage): Promise<readonly string[]> {
  const text = String((await page.render()).body);
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#") && !line.includes("_bucket"));
}

test("groups are counted by device, or by slots, and a removed group leaves no series behind", async () => {
  const page = new MetricPage();
  const metrics = new GroupMetrics(page, () => Date.parse("2026-01-01T00:20:00.000Z"));
  metrics.published(status, undefined);
  metrics.granted("gpu", "b", 0);
  metrics.granted("gpu", "a", 12);
  metrics.evicted("gpu", "b", "waited");
  assert.deepEqual(await lines(page), [
    'berth_group_grants_total{group="gpu",slot="b"} 1',
    'berth_group_grants_total{group="gpu",slot="a"} 1',
    'berth_group_wait_seconds_sum{group="gpu"} 12',
    'berth_group_wait_seconds_count{group="gpu"} 1',
    'berth_group_evictions_total{group="gpu",slot="b",reason="waited"} 1',
    'berth_group_waiting{group="gpu"} 1',
    'berth_group_longest_wait_seconds{group="gpu"} 1200',
    'berth_group_lent{group="gpu"} 0',
    'berth_group_budget_bytes{group="gpu",device="0000:01:00.0"} 24',
    'berth_group_used_bytes{group="gpu",device="0000:01:00.0"} 10',
  ]);
  const slots = {
    ...status,
    budget: [{ resource: "slots", total: 2, used: 1 }],
    members: [member("a"), member("b", "unloaded")],
    lentUntil: "2026-01-01T02:00:00.000Z",
  } satisfies GroupStatus;
  metrics.published(slots, status);
  assert.deepEqual((await lines(page)).slice(-5), [
    'berth_group_waiting{group="gpu"} 0',
    'berth_group_longest_wait_seconds{group="gpu"} 0',
    'berth_group_lent{group="gpu"} 1',
    'berth_group_budget_slots{group="gpu"} 2',
    'berth_group_used_slots{group="gpu"} 1',
  ]);
  metrics.published(undefined, slots);
  assert.deepEqual(await lines(page), []);
});

test("a slot that leaves a group leaves no series of it behind", async () => {
  const page = new MetricPage();
  const metrics = new GroupMetrics(page);
  const both = { ...status, members: [member("a"), member("b")] };
  metrics.published(both, undefined);
  metrics.granted("gpu", "a", 0);
  metrics.granted("gpu", "b", 0);
  metrics.evicted("gpu", "b", "idle");
  metrics.published({ ...status, members: [member("a")] }, both);
  const left = (await lines(page)).filter((line) => line.includes("slot="));
  assert.deepEqual(left, ['berth_group_grants_total{group="gpu",slot="a"} 1']);
});
