import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { z } from "zod";
import { celRules } from "../../hack/generate/cel-rules.ts";
import { crd } from "../../hack/generate/crd.ts";
import { kinds, type Kind } from "../../src/api/names.ts";
import { resources } from "../../hack/generate/resources.ts";

type Node = Readonly<Record<string, unknown>>;
const node: z.ZodType<Node> = z.record(z.string(), z.unknown());
const definition = z.looseObject({
  metadata: z.looseObject({ name: z.string(), annotations: z.record(z.string(), z.string()).optional() }),
  spec: z.looseObject({
    names: z.looseObject({ shortNames: z.array(z.string()), categories: z.array(z.string()) }),
    versions: z.tuple([
      z.looseObject({
        name: z.string(),
        subresources: node.optional(),
        additionalPrinterColumns: z.array(z.looseObject({ name: z.string(), jsonPath: z.string() })),
        schema: z.object({ openAPIV3Schema: node }),
      }),
    ]),
  }),
});

function schemaOf(kind: Kind): Node {
  return definition.parse(crd(kind)).spec.versions[0].schema.openAPIV3Schema;
}

/** The node at a path of property names; `*` is the value of a map, `[]` the item of a list. */
function at(kind: Kind, path: string): Node {
  let current = schemaOf(kind);
  for (const part of path.split(".")) {
    const next =
      part === "[]"
        ? current["items"]
        : part === "*"
          ? current["additionalProperties"]
          : node.parse(current["properties"])[part];
    current = node.parse(next);
  }
  return current;
}

const stays = {
  "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
  "helm.sh/resource-policy": "keep",
};
const logical = ["anyOf", "oneOf", "allOf", "not"];
const forbidden = ["$ref", "definitions", "const", "if", "then", "else", "propertyNames", "patternProperties"];
const preserves = "x-kubernetes-preserve-unknown-fields";

/**
 * What the API server asks of a structural schema:
 * https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
 */
function structuralProblems(schema: Node, path: string): string[] {
  const problems: string[] = [];
  for (const key of forbidden) if (key in schema) problems.push(`${path}: ${key}`);
  if (schema["type"] === undefined && schema[preserves] !== true) problems.push(`${path}: no type`);
  if (typeof schema["additionalProperties"] === "boolean") problems.push(`${path}: boolean additionalProperties`);
  if ("properties" in schema && "additionalProperties" in schema) problems.push(`${path}: properties and a map`);
  if (schema["type"] === "array" && !("items" in schema)) problems.push(`${path}: no items`);
  for (const key of logical) {
    if (/"(type|default|description|additionalProperties)":/.test(JSON.stringify(schema[key] ?? null))) {
      problems.push(`${path}: ${key} says more than values`);
    }
  }
  for (const [name, inner] of Object.entries(node.parse(schema["properties"] ?? {}))) {
    problems.push(...structuralProblems(node.parse(inner), `${path}.${name}`));
  }
  for (const key of ["items", "additionalProperties"]) {
    if (typeof schema[key] === "object")
      problems.push(...structuralProblems(node.parse(schema[key]), `${path}.${key}`));
  }
  return problems;
}

describe("CRDs", () => {
  for (const kind of kinds)
    it(`of ${kind} has a structural schema`, () => assert.deepEqual(structuralProblems(schemaOf(kind), kind), []));

  it("have names that no two kinds share", () => {
    const names = kinds.flatMap((kind) => [resources[kind].plural, kind.toLowerCase(), ...resources[kind].shortNames]);
    assert.equal(new Set(names).size, names.length);
    for (const kind of kinds) {
      const { metadata, spec } = definition.parse(crd(kind));
      assert.deepEqual([metadata.name, spec.names.categories], [`${resources[kind].plural}.berth.dev`, ["berth"]]);
    }
  });

  it("stay when Helm's release or Argo CD's Application is deleted: with a CRD all its resources go", () => {
    for (const directory of ["crds", "charts/berth/crds"])
      for (const kind of kinds) {
        const path = `../../${directory}/berth.dev_${resources[kind].plural}.yaml`;
        const text = readFileSync(fileURLToPath(new URL(path, import.meta.url)), "utf8");
        assert.deepEqual([path, definition.parse(parse(text)).metadata.annotations], [path, stays]);
      }
  });

  it("find schemas that are not structural", () => {
    const broken = {
      type: "object",
      additionalProperties: false,
      properties: { a: {}, b: { type: "array" }, c: { type: "string", anyOf: [{ type: "string" }] }, d: { $ref: "#" } },
    };
    assert.deepEqual(structuralProblems(broken, "x"), [
      "x: boolean additionalProperties",
      "x: properties and a map",
      "x.a: no type",
      "x.b: no items",
      "x.c: anyOf says more than values",
      "x.d: $ref",
      "x.d: no type",
    ]);
  });

  it("give Slot its status, and the columns that kubectl shows", () => {
    const [version] = definition.parse(crd("Slot")).spec.versions;
    assert.equal(version.name, "v1alpha1");
    assert.deepEqual(version.subresources, { status: {} });
    assert.deepEqual(
      version.additionalPrinterColumns.map(({ name }) => name),
      ["State", "Ready", "Reason", "Model", "Port", "Restarts", "Message", "Age"],
    );
    const columns = version.additionalPrinterColumns.map(({ jsonPath }) => jsonPath.slice(1).split("[")[0] ?? "");
    for (const path of columns.filter((one) => !one.startsWith("metadata"))) assert.ok(at("Slot", path), path);
  });

  it("distinguish conditions by type, and let the operator replace a status whole", () => {
    const conditions = at("Slot", "status.conditions");
    assert.deepEqual(
      [conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]],
      ["map", ["type"]],
    );
    for (const kind of kinds) assert.equal(at(kind, "status")["x-kubernetes-map-type"], "atomic");
  });

  for (const [path, fields] of [
    ["spec.idleSeconds", { default: 600 }],
    ["spec.probe", { default: {} }],
    ["spec.model", { default: {} }],
    ["spec.port", { minimum: 8081, maximum: 8099, format: "int64" }],
    ["spec.resources.cpus", { minimum: 0, exclusiveMinimum: true }],
    ["spec.aliases", { maxItems: 256 }],
    ["spec.aliases.[]", { maxLength: 201 }],
    ["spec.podTemplate", { [preserves]: true }],
    ["spec.request.set", { [preserves]: true }],
    ["spec.env.*", { [preserves]: true }],
  ] as const)
    it(`keep at ${path} what Kubernetes is to check or to fill in`, () => {
      assert.partialDeepStrictEqual(at("Slot", path), fields);
    });

  it("merge the ways to give a secret into one object", () => {
    const { properties, oneOf } = z
      .looseObject({ properties: node, oneOf: z.array(node) })
      .parse(at("Upstream", "spec.auth.valueFrom"));
    assert.deepEqual(Object.keys(properties), ["env", "file", "secretKeyRef"]);
    assert.deepEqual(oneOf, [{ required: ["env"] }, { required: ["file"] }, { required: ["secretKeyRef"] }]);
    assert.deepEqual(at("Upstream", "spec.auth.type")["enum"], ["none", "bearer", "header"]);
  });
});

describe("CEL rules", () => {
  it("look at each item of a list once: their cost grows with the object, not with its square", () => {
    const rules = kinds.flatMap((kind) => Object.values(celRules[kind]).flat());
    const loops = /\.(all|exists|exists_one|map|filter)\(/g;
    const nested = rules.filter(({ rule }) => (rule.match(loops)?.length ?? 0) > 1).map(({ rule }) => rule);
    assert.deepEqual(nested, []);
    assert.ok(rules.some(({ rule }) => loops.test(rule)));
  });

  it("ask without has() only for fields that a default fills", () => {
    const text = JSON.stringify(crd("Slot"));
    for (const field of ["enabled", "load", "pinned", "aliases", "runtime"]) {
      assert.ok(at("Slot", `spec.${field}`)["default"] !== undefined, field);
      assert.ok(text.includes(`self.${field}`) || text.includes(`self.spec.${field}`), field);
    }
    assert.deepEqual(at("Upstream", "spec.models")["default"], []);
  });
});
