import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { abnormalTypes } from "../../src/api/conditions.ts";
import { errorTable } from "../../src/api/errors.ts";
import { allMetrics } from "../../hack/generate/metrics.ts";
import { figure, grafanaJson, graph } from "../../hack/monitoring/dashboard.ts";
import { dashboards } from "../../hack/monitoring/dashboards.ts";
import { drawDashboard, legendOf } from "../../hack/monitoring/drawing.ts";
import { lintDashboard, unknownMetrics } from "../../hack/monitoring/lint.ts";
import { readAlertCases } from "../monitoring/alert-cases.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const text = (path: string): string => readFileSync(join(root, path), "utf8");
const ruleSchema = z.looseObject({
  record: z.string().optional(),
  alert: z.string().optional(),
  expr: z.string(),
  labels: z.record(z.string(), z.string()).default({}),
  annotations: z.record(z.string(), z.string()).default({}),
});
const rulesSchema = z.looseObject({ groups: z.array(z.looseObject({ rules: z.array(ruleSchema) })) });
function rulesOf(file: string): z.infer<typeof ruleSchema>[] {
  const parsed = rulesSchema.parse(parse(text(`manifests/monitoring/rules/${file}.yaml`)));
  return parsed.groups.flatMap(({ rules }) => rules);
}

const alerts = rulesOf("alerts");
const recording = rulesOf("recording");
const recorded = new Set(recording.flatMap(({ record }) => record ?? []));

describe("alerts", () => {
  it("have a severity, a summary, and a runbook with its three parts and commands", () => {
    const runbooks = new Set<string>();
    for (const { alert = "", labels, annotations } of alerts) {
      assert.match(labels["severity"] ?? "", /^(critical|warning|info)$/, alert);
      assert.ok((annotations["summary"] ?? "").length > 20, alert);
      const path = annotations["runbook_url"] ?? "";
      runbooks.add(path);
      const page = text(path);
      assert.ok(page.startsWith(`# ${alert}\n`), path);
      const parts = ["## Meaning", "## What to look at", "## What to do"];
      assert.deepEqual(page.match(/^## .+/gm), parts, path);
      assert.match(page, /```sh\n.+\n```/s, path);
      assert.ok(text("docs/runbooks/README.md").includes(`[${alert}](`), alert);
    }
    const pages = readdirSync(join(root, "docs/runbooks")).filter((name) => name !== "README.md");
    assert.deepEqual(pages.map((name) => `docs/runbooks/${name}`).toSorted(), [...runbooks].toSorted());
  });

  it("are tested both ways", () => {
    const cases = readAlertCases();
    for (const { alert } of alerts) {
      const own = cases.filter((each) => each.alert === alert).map(({ fires }) => fires.length > 0);
      assert.deepEqual([own.includes(true), own.includes(false)], [true, true], alert);
    }
  });

  it("count an error as a failure where it is Berth's, an engine's or a provider's, and no other", () => {
    const rules = recording.filter(({ record }) => record?.startsWith("berth:requests_failed:"));
    assert.equal(rules.length, 3);
    // Those that a request for an answer never gets, and a slot that is off on purpose.
    const others = /^(slot\.disabled|system\.not_implemented|model\..+)$/;
    const failing = Object.entries(errorTable).flatMap(([code, [status]]) =>
      status >= 500 && !others.test(code) ? [code] : [],
    );
    for (const { expr } of rules) {
      const counted = new RegExp(`^(?:${/error=~"([^"]+)"/.exec(expr)?.[1] ?? ""})$`);
      assert.deepEqual(
        Object.keys(errorTable).filter((code) => counted.test(code)),
        failing,
      );
    }
  });

  it("ask a person about every condition that is for one", () => {
    const { expr } = alerts.find(({ alert }) => alert === "BerthNeedsPerson") ?? {};
    assert.equal(/type=~"([^"]+)"/.exec(expr ?? "")?.[1], abnormalTypes.join("|"));
  });

  it("ask for metrics that there are", () => {
    for (const { expr, alert, record } of [...alerts, ...recording])
      assert.deepEqual(unknownMetrics(expr, recorded), [], alert ?? record);
  });
});

describe("dashboards", () => {
  it("ask for metrics that there are, and use their variables", () => {
    assert.deepEqual(
      dashboards.flatMap((dashboard) => lintDashboard(dashboard, recorded)),
      [],
    );
  });

  it("respect their choices in each panel whose metrics have that label", () => {
    const ofSlot = new Set(allMetrics.filter(({ labels }) => labels.includes("slot")).map((metric) => metric.name));
    for (const { name, variables, panels } of dashboards)
      for (const { title, queries } of panels)
        for (const { expr } of queries) {
          // What a recording rule has summed has no address any more.
          const isRecorded = expr.includes("berth:");
          assert.ok(isRecorded || expr.includes("$instance"), `${name}: ${title}`);
          if (!variables.some((variable) => variable.name === "slot")) continue;
          const asked = expr.match(/\bberth_\w+/g)?.map((metric) => metric.replace(/_(bucket|sum|count)$/, "")) ?? [];
          if (isRecorded || asked.some((metric) => ofSlot.has(metric)))
            assert.ok(expr.includes("$slot"), `${name}: ${title}`);
        }
  });

  it("have a unit at each panel, and a place of its own", () => {
    const unit = z.looseObject({ defaults: z.looseObject({ unit: z.string().min(1) }) });
    const panel = z.looseObject({ gridPos: z.object({ x: z.int(), y: z.int() }), fieldConfig: unit });
    for (const dashboard of dashboards) {
      const { panels } = z.looseObject({ panels: z.array(panel) }).parse(JSON.parse(grafanaJson(dashboard)));
      const places = new Set(panels.map(({ gridPos: { x, y } }) => `${x} ${y}`));
      assert.equal(places.size, dashboard.panels.length, dashboard.name);
    }
  });

  it("have pictures in the docs with the title and a value of each panel", () => {
    const page = text("docs/monitoring.md");
    for (const { name, panels } of dashboards) {
      assert.ok(page.includes(`(pictures/grafana-${name}.svg)`), name);
      const svg = text(`docs/pictures/grafana-${name}.svg`);
      const titles = [...svg.matchAll(/font-weight="600">([^<]+)</g)].map(([, title]) => title);
      // The first is the dashboard's own.
      assert.deepEqual(
        titles.slice(1),
        panels.map(({ title }) => title),
        "run `make pictures-monitoring`",
      );
      assert.ok(!svg.includes("no value"), name);
    }
  });

  it("are drawn with the lines that Prometheus answers", () => {
    const dashboard = {
      name: "two",
      title: "Two",
      variables: [],
      panels: [figure("Now", "bytes", "a"), graph("Course", "s", ["b", "{{slot}} & <all>"])],
    };
    const name = legendOf("{{slot}} & <all>", { slot: "primary" });
    const course = [
      [0, 0],
      [4, 0.75],
      [6, Number.NaN],
      [10, 1.5],
    ] as const;
    const figures = [
      { name: "ended", points: [[0, 7]] },
      { name: "present", points: [[10, 2048]] },
    ] as const;
    const svg = drawDashboard(dashboard, ({ kind }) => (kind === "stat" ? figures : [{ name, points: course }]));
    assert.match(svg, />2 KiB</);
    assert.match(svg, />primary &amp; &lt;all>/);
    assert.match(svg, /points="70\.0,130\.0 274\.0,94\.8"/);
    assert.match(svg, />2 s</);
  });

  it("would be reported with a fault", () => {
    const bad = {
      name: "bad",
      title: "Bad",
      variables: [{ name: "slot", metric: "berth_slot_state", label: "slot" }],
      panels: [figure("One", "short", 'sum(berth_nothing_total{slot=~"$model"})')],
    };
    assert.deepEqual(lintDashboard(bad, recorded), [
      "bad: One: no berth_nothing_total",
      "bad: no variable model",
      "bad: slot is in no query",
    ]);
  });
});
