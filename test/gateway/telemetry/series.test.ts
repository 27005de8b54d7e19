import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Condition } from "../../../src/api/conditions.ts";
import type { Resource } from "../../../src/gateway/management/resource-index.ts";
import { buildIndex, type ResolutionIndex } from "../../../src/gateway/routing/index.ts";
import { exportConditions } from "../../../src/gateway/telemetry/condition-metrics.ts";
import { GatewayMetrics } from "../../../src/gateway/telemetry/metrics.ts";
import { UpstreamMetrics } from "../../../src/gateway/providers/metrics.ts";
import { Upstreams } from "../../../src/gateway/providers/upstreams.ts";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import { publishedSlot } from "../../support/gateway.ts";
import { specOf } from "../providers/fixture.ts";

const minuteMs = 60_000;

async function linesWith(page: MetricPage, name: string): Promise<readonly string[]> {
  const text = String((await page.render()).body);
  return text.split("\n").filter((line) => line.startsWith("berth_") && line.includes(`"${name}"`));
}

describe("series of what is gone", () => {
  it("leave the gateway's page after ten minutes, and no others do", async () => {
    const clock = { ms: 0 };
    const slots = new Set(["mine", "yours"]);
    const providers = new Set(["acme"]);
    const index = (): ResolutionIndex => {
      const published = [...slots].map((name) => publishedSlot(name, {}, 1));
      const registry = { schema: 1 as const, models: [], upstreams: [], resources: [] };
      return buildIndex({ slots: () => published, registry: () => registry }, new Map());
    };
    const readers = {
      traffic: { inFlight: () => 0, stateOf: () => "ready" as const },
      admission: { counts: () => ({ held: 0, queued: 0 }) },
      index,
      upstreams: { get: (name: string) => (providers.has(name) ? {} : undefined) },
      unresolved: () => 0,
    };
    const metrics = new GatewayMetrics(readers, () => clock.ms);
    const route = "/v1/chat/completions";
    const used = (slot: string): void => {
      metrics.waited(slot, { waitMs: 2, holdMs: 1 });
      metrics.joined(slot);
      const { firstByte, firstToken } = metrics.of(route, slot);
      firstByte.observe(1);
      firstToken("warm").observe(1);
      metrics.ofSlot(slot).betweenTokens.observe(1);
      metrics.ofSlot(slot).tokensIn.value += 1;
      metrics.ended(route, slot, 200, 1);
      metrics.failed(slot, { code: "slot.not_ready", details: undefined }, false);
    };
    for (const slot of ["mine", "yours", "upstream acme", "none"]) used(slot);
    const before = await linesWith(metrics.page, "mine");
    const families = new Set(before.map((line) => line.replace(/(_bucket|_sum|_count)?\{.*/, "")));
    assert.equal(families.size, 14, [...families].join(" "));
    slots.delete("yours");
    providers.delete("acme");
    clock.ms += minuteMs;
    await metrics.page.render();
    clock.ms += 9 * minuteMs;
    assert.notDeepEqual(await linesWith(metrics.page, "yours"), [], "its last requests may still end");
    providers.add("acme");
    clock.ms += minuteMs;
    assert.deepEqual(await linesWith(metrics.page, "yours"), []);
    assert.deepEqual(await linesWith(metrics.page, "mine"), before);
    assert.notDeepEqual(await linesWith(metrics.page, "none"), []);
    assert.notDeepEqual(await linesWith(metrics.page, "upstream acme"), [], "it is there again");
    // One of that name comes back, and counts from zero.
    used("yours");
    const one = `berth_requests_total{route="${route}",slot="yours",code="200"} 1`;
    assert.ok((await linesWith(metrics.page, "yours")).includes(one));
  });

  it("leave it with a provider too", async () => {
    const clock = { ms: 0 };
    await using upstreams = new Upstreams({ env: {}, onProblem: () => undefined });
    upstreams.update([{ name: "acme", spec: specOf({ baseUrl: "http://127.0.0.1:1/v1" }) }]);
    const page = new MetricPage();
    const views = () => upstreams.views();
    const metrics = new UpstreamMetrics(page, views, () => clock.ms);
    metrics.outcome("acme", "200", 1);
    metrics.retry("acme");
    assert.notDeepEqual(await linesWith(page, "acme"), []);
    upstreams.update([]);
    clock.ms += minuteMs;
    await page.render();
    clock.ms += 11 * minuteMs;
    assert.deepEqual(await linesWith(page, "acme"), []);
  });
});

const condition = (type: string, status: Condition["status"], reason: string): Condition => ({
  type,
  status,
  reason,
  message: "",
  observedGeneration: 1,
  lastTransitionTime: "2026-11-22T12:00:00.000Z",
});

it("a condition has a single series, whatever its earlier status, and loses it with its resource", async () => {
  const page = new MetricPage();
  let all: readonly Resource[] = [];
  exportConditions(page, () => all);
  const lines = async (): Promise<string[]> =>
    String((await page.render()).body)
      .split("\n")
      .filter((line) => line.startsWith("berth_condition"));
  const named = 'a "quoted\\ name';
  all = [{ kind: "Model", name: named, file: null, conditions: [condition("Ready", "True", "Available")] }];
  assert.deepEqual(await lines(), [
    String.raw`berth_condition{kind="Model",name="a \"quoted\\ name",type="Ready",status="True",reason="Available"} 1`,
  ]);
  for (const reason of ["InvalidSpec", "ModelFileMissing"]) {
    all = [{ kind: "Model", name: named, file: null, conditions: [condition("Ready", "False", reason)] }];
    assert.equal((await lines()).length, 1);
    assert.match((await lines())[0] ?? "", new RegExp(`status="False",reason="${reason}"\\} 1$`));
  }
  all = [];
  assert.deepEqual(await lines(), []);
});
