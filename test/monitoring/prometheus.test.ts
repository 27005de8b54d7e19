import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Panel } from "../../hack/monitoring/dashboard.ts";
import { dashboards } from "../../hack/monitoring/dashboards.ts";
import { drawDashboard, legendOf, type Line } from "../../hack/monitoring/drawing.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { load, startSite } from "./site.ts";
import { scriptedEngine } from "../support/scripted-engine.ts";
import { freePorts } from "../support/ports.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";
import { configFor, startPrometheus, type RunningPrometheus } from "./prometheus.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** A query of a dashboard, with Grafana's variables replaced. */
function inPrometheus(expr: string, interval = "1m"): string {
  return expr.replaceAll("$__rate_interval", interval).replaceAll("$slot", ".+").replaceAll("$instance", ".+");
}

const picturedSeconds = 120;

/** Draws each dashboard's queries after two minutes of requests; only for `make pictures-monitoring`. */
async function draw(berth: RunningBerth, prometheus: RunningPrometheus, directory: string): Promise<void> {
  const beganAt = performance.now();
  for (let round = 0; performance.now() - beganAt < picturedSeconds * 1000; round += 1) {
    const clients = 1 + (Math.floor(round / 8) % 4);
    const asked = [
      "primary",
      "cold",
      ...(round % 3 === 0 ? ["cloud/big"] : []),
      ...(round % 20 === 5 ? ["left"] : []),
      ...(round % 20 === 15 ? ["right"] : []),
    ];
    await Promise.all(Array.from({ length: clients }, () => load(berth, asked)));
    await pause(500);
  }
  for (const dashboard of dashboards) {
    const lines = new Map<Panel, Line[]>();
    for (const panel of dashboard.panels) {
      const all: Line[] = [];
      for (const { expr, legend } of panel.queries)
        for (const { metric, values } of await prometheus.queryRange(inPrometheus(expr, "15s"), picturedSeconds))
          all.push({ name: legendOf(legend, metric).trim() || panel.title, points: values });
      lines.set(panel, all);
    }
    const svg = drawDashboard(dashboard, (panel) => lines.get(panel) ?? []);
    await writeFile(join(directory, `grafana-${dashboard.name}.svg`), svg);
  }
}

test("every query of every dashboard has an answer after real requests", async () => {
  await using provider = await scriptedEngine();
  await using berth = await startSite(provider.port);
  await berth.state("primary", "ready");
  await using prometheus = await startPrometheus(berth);
  // Twice are enough: later ones would let BerthGroupThrashing fire, as they should.
  await load(berth, ["left", "right"]);
  await load(berth, ["left", "right"]);
  const empty = async (): Promise<string[]> => {
    await load(berth, ["primary", "cold", "cloud/big", "no-such-model"]);
    const missing: string[] = [];
    for (const { name, panels } of dashboards)
      for (const { title, queries } of panels)
        for (const { expr } of queries) {
          const asked = inPrometheus(expr);
          if ((await prometheus.query(asked)).length === 0) missing.push(`${name}: ${title}: ${asked}`);
        }
    return missing;
  };
  let last: string[] = [];
  await until(
    "each query has an answer",
    async () => {
      last = await empty();
      return last.length === 0;
    },
    400_000,
  ).catch(() => assert.deepEqual(last, []));
  for (const { name, variables } of dashboards)
    for (const { metric, label } of variables)
      assert.ok((await prometheus.labelValues(metric, label)).length > 0, `${name}: label_values(${metric}, ${label})`);
  assert.deepEqual((await prometheus.labelValues("berth_requests_total", "slot")).toSorted(), [
    "cold",
    "left",
    "none",
    "primary",
    "right",
    "upstream cloud",
  ]);
  const exemplars = await (
    await fetch(
      `${prometheus.url}/api/v1/query_exemplars?query=berth_time_to_first_token_seconds_bucket&start=${Date.now() / 1000 - 600}&end=${Date.now() / 1000}`,
    )
  ).text();
  assert.match(exemplars, /"request_id":"/);
  const firing = await prometheus.query('ALERTS{alertstate="firing",alertname!="BerthUnknownModel"}');
  assert.deepEqual(firing, [], "a healthy Berth lets no alert fire");
  const directory = process.env["BERTH_TEST_PICTURES"];
  if (directory !== undefined) await draw(berth, prometheus, directory);
});

test("Prometheus finds both pages by what the gateway says", async () => {
  await using berth = await startBerth({});
  await using prometheus = await startPrometheus(berth, "scrape/http-sd.yaml");
  await until("both are up", async () => (await prometheus.query('up{job="berth"} == 1')).length === 2, 150_000);
  assert.equal((await prometheus.query('up{part="operator"}')).length, 1);
});

test("five commands lead from nothing to an alert that fires", async () => {
  const page = await readFile(join(root, "docs/monitoring.md"), "utf8");
  const block = /## From nothing to an alert\n.*?```sh\n(.*?)```/s.exec(page)?.[1] ?? "";
  const commands = block.trim().split("\n");
  assert.equal(commands.length, 5);
  await using directory = await tempDir();
  const { first, last } = await freePorts(8);
  const manifests = join(directory.path, "monitoring");
  await configFor(manifests, { gateway: String(first), operator: String(first + 1) });
  const script = block
    .replaceAll("manifests/monitoring", manifests)
    .replaceAll(":8080", `:${first}`)
    .replaceAll(":9090", `:${first + 2}`)
    .replaceAll("berth.log", join(directory.path, "berth.log"))
    .replaceAll("prometheus.log", join(directory.path, "prometheus.log"))
    .replaceAll("/tmp/berth-prometheus", join(directory.path, "data"));
  const { stdout } = await promisify(execFile)(
    "bash",
    ["-euo", "pipefail", "-c", `trap 'kill $(jobs -p); wait' EXIT\n${script}`],
    {
      cwd: root,
      timeout: 600_000,
      env: {
        PATH: process.env["PATH"],
        HOME: directory.path,
        SVC_CONFIG_DIR: join(directory.path, "config"),
        SVC_STATE_DIR: join(directory.path, "state"),
        SVC_MODELS_DIR: join(directory.path, "models"),
        SVC_RUNTIME: "process",
        SVC_HOST: "127.0.0.1",
        SVC_PORT: String(first),
        SVC_OPERATOR_PORT: String(first + 1),
        SVC_SLOT_PORTS: `${first + 3}-${last}`,
      },
    },
  );
  assert.match(stdout, /alertname="BerthUnknownModel", alertstate="firing"/);
});
