import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { valuesSchema } from "../../hack/generate/values-schema.ts";
import { isRecord } from "../../src/lib/record.ts";

const chart = fileURLToPath(new URL("../../charts/berth", import.meta.url));

function yamlAt(path: string): Readonly<Record<string, unknown>> {
  const value: unknown = parse(readFileSync(join(chart, path), "utf8"));
  return isRecord(value) ? value : {};
}

/** The properties of a closed object; undefined for what counts as one value. */
function propertiesOf(schema: unknown, path: string): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(schema) || schema["additionalProperties"] !== false || path === "settings") return undefined;
  return isRecord(schema["properties"]) ? schema["properties"] : undefined;
}

/** Every path of closed objects, as `gateway.replicas`. */
function pathsOfSchema(schema: unknown, path = ""): readonly string[] {
  const properties = propertiesOf(schema, path);
  if (properties === undefined) return [path];
  return Object.entries(properties).flatMap(([key, value]) =>
    pathsOfSchema(value, path === "" ? key : `${path}.${key}`),
  );
}

function pathsOfValues(value: unknown, schema: unknown, path = ""): readonly string[] {
  const properties = propertiesOf(schema, path);
  if (properties === undefined || !isRecord(value)) return [path];
  return Object.entries(value).flatMap(([key, each]) =>
    pathsOfValues(each, properties[key], path === "" ? key : `${path}.${key}`),
  );
}

describe("the chart", () => {
  it("has a value for each place of its schema, and no other", () => {
    const schema = valuesSchema();
    // Helm's own.
    const wanted = pathsOfSchema(schema).filter((path) => path !== "global");
    assert.deepEqual(pathsOfValues(yamlAt("values.yaml"), schema).toSorted(), wanted.toSorted());
  });

  it("selects its own Pods by a label that no podTemplate of a Slot may set", () => {
    const text = (file: string): string => readFileSync(join(chart, "templates", file), "utf8");
    const [, selector = ""] = /define "berth\.selector"([\s\S]*?)end -\}\}/.exec(text("_helpers.tpl")) ?? [];
    assert.match(selector, /^berth\.dev\/part: /m);
    // Those of the gateway, the operator and their policies; engines are those with a slot.
    const selectors = ["gateway.yaml", "operator.yaml", "network-policy.yaml"].flatMap((file) =>
      text(file)
        .split("\n")
        .filter((line) => /^ +matchLabels:|^ {2}selector: \S/.test(line)),
    );
    assert.ok(selectors.length > 8);
    assert.deepEqual(
      selectors.filter((line) => !line.includes('include "berth.selector"')),
      [],
    );
  });

  it("is of the program's version", () => {
    const program: unknown = JSON.parse(readFileSync(join(chart, "../../package.json"), "utf8"));
    const { version, appVersion } = yamlAt("Chart.yaml");
    assert.ok(isRecord(program));
    assert.deepEqual([version, appVersion], [program["version"], program["version"]]);
  });
});
