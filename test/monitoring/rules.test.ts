import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { tempDir } from "../support/temp-dir.ts";
import { readAlertCases } from "./alert-cases.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const promtool = async (...args: string[]): Promise<string> =>
  (await promisify(execFile)("promtool", args, { cwd: root })).stdout;

test("promtool accepts the rules and each scrape configuration", async () => {
  const rules = ["alerts", "recording"].map((name) => `manifests/monitoring/rules/${name}.yaml`);
  assert.match(await promtool("check", "rules", ...rules), /SUCCESS/);
  const scrapes = (await readdir(join(root, "manifests/monitoring/scrape"))).filter((name) => name.endsWith(".yaml"));
  assert.ok(scrapes.length >= 3);
  await promtool("check", "config", "manifests/monitoring/prometheus.yaml");
  for (const name of scrapes) await promtool("check", "config", `manifests/monitoring/scrape/${name}`);
});

test("each alert fires in its cases, with its runbook, and stays quiet in the others", async () => {
  const tests = readAlertCases().map(({ alert, why, at, given, fires }) => ({
    name: `${alert} ${fires.length > 0 ? "fires" : "stays quiet"} ${why}`,
    interval: "1m",
    input_series: given.map((line) => ({ series: line.split(" ", 1)[0], values: line.slice(line.indexOf(" ") + 1) })),
    alert_rule_test: [
      {
        eval_time: at,
        alertname: alert,
        exp_alerts: fires.map((line) => {
          const [, severity = "", labels = "", summary = ""] = /^(\w+)\{(.*?)\} (.*)$/.exec(line) ?? [];
          const named = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name = "", value = ""]) => [name, value]);
          return {
            exp_labels: { severity, ...Object.fromEntries(named) },
            exp_annotations: { summary, runbook_url: `docs/runbooks/${runbookOf(alert)}.md` },
          };
        }),
      },
    ],
  }));
  await using directory = await tempDir();
  const file = join(directory.path, "rules.yaml");
  const rules = ["recording", "alerts"].map((name) => join(root, `manifests/monitoring/rules/${name}.yaml`));
  await writeFile(file, JSON.stringify({ rule_files: rules, evaluation_interval: "1m", tests }));
  assert.match(await promtool("test", "rules", file), /SUCCESS/);
});

const runbookOf = (alert: string): string =>
  alert
    .replace("Berth", "")
    .replaceAll(/\B[A-Z]/g, (letter) => `-${letter}`)
    .toLowerCase();
