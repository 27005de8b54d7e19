import assert from "node:assert/strict";
import { it } from "node:test";
import { MetricPage } from "../../../src/lib/metrics/page.ts";
import type { Condition } from "../../../src/api/conditions.ts";
import { exportConditions } from "../../../src/gateway/telemetry/condition-metrics.ts";
import type { Resource } from "../../../src/gateway/management/resource-index.ts";

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
