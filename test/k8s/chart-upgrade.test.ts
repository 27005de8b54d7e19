import assert from "node:assert/strict";
import { appendFile, cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { chartDirectory, helm } from "../support/kube/helm.ts";
import { sharedPlane } from "../support/kube/shared.ts";
import { tempDir } from "../support/temp-dir.ts";

const page = fileURLToPath(new URL("../../docs/kubernetes.md", import.meta.url));
const schemaOf = z.looseObject({ required: z.array(z.string()), properties: z.looseObject({}) });

/** The chart of the next version: with one group of values more, which a template reads. */
async function nextChart(directory: string): Promise<string> {
  const chart = join(directory, "next");
  await cp(chartDirectory, chart, { recursive: true });
  await appendFile(join(chart, "values.yaml"), "\nlater: { word: default }\n");
  const file = join(chart, "values.schema.json");
  const { required, properties, ...rest } = schemaOf.parse(JSON.parse(await readFile(file, "utf8")));
  const later = { type: "object", required: ["word"], properties: { word: { type: "string" } } };
  const schema = { ...rest, required: [...required, "later"], properties: { ...properties, later } };
  await writeFile(file, JSON.stringify(schema));
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "later" } };
  const text = JSON.stringify({ ...map, data: { word: "{{ .Values.later.word }}" } });
  await writeFile(join(chart, "templates/later.yaml"), text);
  return chart;
}

/** The options of each `helm upgrade` in a text that keep the values of the last release. */
function keeping(text: string): readonly string[] {
  const lines = text.split("\n").filter((line) => line.includes("helm upgrade berth "));
  return lines.flatMap((line) => line.split(" ").filter((word) => /^--re(use|set)/.test(word)));
}

test("the documented upgrade takes the chart of the next version, keeps values, and has that version's new defaults", async () => {
  await using plane = await sharedPlane();
  await using directory = await tempDir();
  const namespace = await plane.namespace();
  const values = { crds: { upgrade: false }, service: { port: 8090 } };
  const said = await helm(plane, ["install", "berth", chartDirectory, "-n", namespace], values);
  const options = keeping(said);
  assert.deepEqual(keeping(await readFile(page, "utf8")), options, "docs/kubernetes.md has the option of the NOTES");
  const slots = { chat: { enabled: false } };
  const upgrade = ["upgrade", "berth", await nextChart(directory.path), "-n", namespace, ...options];
  await helm(plane, upgrade, { slots });
  const read = async (...args: readonly string[]): Promise<string> =>
    await plane.kubectl(["get", "-n", namespace, ...args]);
  assert.equal(await read("configmap/later", "-o", "jsonpath={.data.word}"), "default");
  assert.equal(await read("service/berth", "-o", "jsonpath={.spec.ports[0].port}"), "8090");
  assert.equal(await read("slots.berth.dev", "-o", "jsonpath={.items[*].metadata.name}"), "chat");
  await helm(plane, ["uninstall", "berth", "-n", namespace, "--no-hooks"]);
});
