import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GatewayMetrics } from "../../../src/gateway/telemetry/metrics.ts";
import { UpstreamMetrics } from "../../../src/gateway/upstreams/metrics.ts";
import { GoneNames } from "../../../src/lib/metrics/gone-names.ts";
import { buildIndex } from "../../../src/gateway/routing/index.ts";
import { MetricPage } from "../../../src/lib/metrics/page.ts";

const minuteMs = 60_000;

async function linesWith(page: MetricPage, name: string): Promise<readonly string[]> {
  const text = String((await page.render()).body);
  return text.split("\n").filter((line) => line.startsWith("berth_") && line.includes(`"${name}"`));
}

describe("series of what is gone", () => {
  it("leave the gateway's page after ten minutes, and no others do", async () => {
    const clock = { ms: 0 };
    const present = new Set(["mine", "yours", "upstream acme"]);
    const index = buildIndex(
      { slots: () => [], registry: () => ({ schema: 1, models: [], upstreams: [] }) },
      new Map(),
    );
    const metrics = new GatewayMetrics({
      traffic: { inFlight: () => 0, stateOf: () => "ready" },
      admission: { counts: () => ({ held: 0, queued: 0 }) },
      index: () => index,
      unresolved: () => 0,
    });
    metrics.dropGone(
      new GoneNames(
        (name) => present.has(name),
        () => clock.ms,
      ),
    );
    const route = "/v1/chat/completions";
    const used = (slot: string): void => {
      metrics.waited(slot, { waitMs: 2, holdMs: 1 });
      metrics.joined(slot);
      const { firstByte, firstToken } = metrics.of(route, slot);
      firstByte.observe(1);
      firstToken().observe(1);
      metrics.ofSlot(slot).betweenTokens.observe(1);
      metrics.ofSlot(slot).tokensIn.value += 1;
      metrics.ended(route, slot, 200, 1);
      metrics.failed(slot, { code: "slot.not_ready" }, false);
    };
    for (const slot of ["mine", "yours", "upstream acme", "none"]) used(slot);
    const before = await linesWith(metrics.page, "mine");
    const families = new Set(before.map((line) => line.replace(/(_bucket|_sum|_count)?\{.*/, "")));
    assert.equal(families.size, 10, [...families].join(" "));
    present.delete("yours");
    present.delete("upstream acme");
    clock.ms += minuteMs;
    await metrics.page.render();
    clock.ms += 9 * minuteMs;
    assert.notDeepEqual(await linesWith(metrics.page, "yours"), [], "its last requests may still end");
    present.add("upstream acme");
    clock.ms += minuteMs;
    assert.deepEqual(await linesWith(metrics.page, "yours"), []);
    assert.deepEqual(await linesWith(metrics.page, "mine"), before);
    assert.notDeepEqual(await linesWith(metrics.page, "none"), []);
    assert.notDeepEqual(await linesWith(metrics.page, "upstream acme"), [], "it is there again");
    // One of that name comes back, and counts from zero.
    used("yours");
    assert.ok(
      (await linesWith(metrics.page, "yours")).includes(
        `berth_requests_total{route="${route}",slot="yours",code="200"} 1`,
      ),
    );
  });

  it("leave it with a provider too", async () => {
    const clock = { ms: 0 };
    const present = new Set(["acme"]);
    const page = new MetricPage();
    const gone = new GoneNames(
      (name) => present.has(name),
      () => clock.ms,
    );
    const metrics = new UpstreamMetrics(page, () => [], gone);
    metrics.outcome("acme", "200", 1);
    metrics.outcome("acme", "503", 1);
    metrics.retry("acme");
    assert.notDeepEqual(await linesWith(page, "acme"), []);
    present.clear();
    clock.ms += minuteMs;
    await page.render();
    clock.ms += 11 * minuteMs;
    assert.deepEqual(await linesWith(page, "acme"), []);
  });
});
