import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

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

test("each alert fires in its case, and stays quiet in the other", async () => {
  assert.match(await promtool("test", "rules", "test/monitoring/rules.test.yaml"), /SUCCESS/);
});
