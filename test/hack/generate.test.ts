import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { generated, stale } from "../../hack/generate.ts";
import { configSchema, inSnakeCase, tomlSchema, yamlSchema } from "../../hack/generate/editor-schema.ts";
import { readSchema, type JsonSchema } from "../../hack/generate/json-schema.ts";
import { reference } from "../../hack/generate/reference.ts";
import { resources } from "../../hack/generate/resources.ts";
import { configShape, environmentName, tomlName, type ConfigKey } from "../../src/api/config.ts";
import { errorTable } from "../../src/api/errors.ts";
import { kinds } from "../../src/api/names.ts";
import { slotStates } from "../../src/api/states.ts";
import { readManifests } from "../../src/store/files/manifest.ts";
import { camelCase } from "../../src/store/files/spelling.ts";
import { tempDir } from "../support/temp-dir.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const objectSchema = z.record(z.string(), z.json());

/** Every property of a spec, with its path. */
function fields(schema: JsonSchema, path: readonly string[] = []): { path: string; schema: JsonSchema }[] {
  const own = Object.entries(schema.properties ?? {}).flatMap(([name, inner]) => [
    { path: [...path, name].join("."), schema: inner },
    ...fields(inner, [...path, name]),
  ]);
  const branches = (schema.anyOf ?? []).flatMap((branch) => fields(branch, path));
  return [...own, ...branches, ...(schema.items === undefined ? [] : fields(schema.items, [...path, "[]"]))];
}

const keys = Object.keys(configShape).filter((key): key is ConfigKey => key in configShape);

describe("generated files", () => {
  it("are what src/api says", async () => {
    assert.deepEqual(await stale(root, await generated(root)), []);
  });

  it("are named when they are missing, or changed by a byte", async () => {
    await using directory = await tempDir();
    for (const [name, text] of [
      ["a.md", "same\n"],
      ["b.md", "wanted \n"],
    ] as const)
      await writeFile(join(directory.path, name), text);
    const wanted = new Map([
      ["a.md", "same\n"],
      ["b.md", "wanted\n"],
      ["crds/c.yaml", "gone\n"],
    ]);
    assert.deepEqual(await stale(directory.path, wanted), ["b.md", "crds/c.yaml"]);
  });
});

describe("fields of the resources", () => {
  /** Groups whose fields speak for themselves, and the words of a Kubernetes Secret reference. */
  const plain =
    /^(model|probe|concurrency|timeoutSeconds|resources|request)$|secretKeyRef\.(name|key)$|^auth\.(type|valueFrom)$/;
  for (const kind of kinds) {
    it(`of ${kind} have a meaning each`, () => {
      const all = fields(readSchema(resources[kind].schema, "input"));
      assert.ok(all.length > 2);
      assert.deepEqual(
        all.filter(({ path, schema }) => schema.description === undefined && !plain.test(path)).map(({ path }) => path),
        [],
      );
    });
  }

  it("of the settings, too", () => {
    for (const { path, schema } of fields(readSchema(z.strictObject(configShape), "input"))) {
      if (!path.includes(".")) assert.ok(schema.description, path);
    }
  });
});

describe("editor schemas", () => {
  const slot = z.fromJSONSchema(objectSchema.parse(tomlSchema("Slot")));
  const takes = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success;

  it("for TOML spell fields in snake_case, and names of a person's own as they are", () => {
    for (const [spec, isTaken] of [
      [{ enabled: true, idle_seconds: 5, model: { default: "tiny", context_size: 2048 } }, true],
      [{ idleSeconds: 5 }, false],
      [{ model: { contextSize: 2048 } }, false],
      [{ labels: { myTeam: "a" }, annotations: { b: "c" }, request: { set: { maxTokens: 5 } } }, true],
      [{ env: { A: "b", B: { valueFrom: { file: "/run/b" } } } }, true],
      [{ labels: { a: 1 } }, false],
    ] as const)
      assert.equal(takes(slot, spec), isTaken, JSON.stringify(spec));
  });

  for (const kind of kinds) {
    it(`for TOML give every field of ${kind} a name that the store reads back`, () => {
      const spec = readSchema(resources[kind].schema, "input");
      const back = fields(inSnakeCase(spec)).map(({ path }) => path.split(".").map(camelCase).join("."));
      assert.deepEqual(
        back,
        fields(spec).map(({ path }) => path),
      );
    });
  }

  it("for YAML take a bare spec, or a whole manifest", () => {
    const { definitions } = z
      .object({ definitions: z.object({ spec: objectSchema, manifest: objectSchema }) })
      .parse(yamlSchema("Slot"));
    const bare = z.fromJSONSchema(definitions.spec);
    const { properties } = z.looseObject({ properties: objectSchema }).parse(definitions.manifest);
    const manifest = z.fromJSONSchema({
      ...definitions.manifest,
      properties: { ...properties, spec: definitions.spec },
    });
    const spec = { model: { default: "tiny", contextSize: 2048 } };
    const whole = { apiVersion: "berth.dev/v1alpha1", kind: "Slot", metadata: { name: "coder" }, spec };
    assert.deepEqual([takes(bare, spec), takes(bare, { ...spec, labels: { a: "b" } })], [true, false]);
    assert.ok(takes(manifest, whole));
    for (const wrong of [{ kind: "Model" }, { metadata: { name: "Not a name" } }, { spec: { modell: {} } }])
      assert.ok(!takes(manifest, { ...whole, ...wrong }), JSON.stringify(wrong));
  });

  it("for berth.toml know every setting, with its default", () => {
    const { properties } = z
      .object({ properties: z.record(z.string(), z.looseObject({ default: z.json().optional() })) })
      .parse(configSchema());
    assert.deepEqual(Object.keys(properties), keys.map(tomlName));
    assert.equal(properties["port"]?.default, 8080);
    assert.equal(properties["body_limit"]?.default, 67_108_864);
  });
});

describe("examples", () => {
  for (const example of ["primary.toml", "embed.toml", "stt.toml", "tts.toml", "coder.yaml"])
    it(`${example} is valid, and names its schema in its first line`, () => {
      const path = join(root, "manifests/examples/slots", example);
      const text = readFileSync(path, "utf8");
      assert.deepEqual(
        readManifests(path, text).map(({ diagnostics }) => diagnostics),
        [[]],
      );
      const [, named = ""] = /^#(?::schema | yaml-language-server: \$schema=)(\S+)\n/.exec(text) ?? [];
      assert.ok(named.endsWith(example.endsWith(".toml") ? ".toml.schema.json" : ".yaml.schema.json"), named);
      assert.doesNotThrow(() => objectSchema.parse(JSON.parse(readFileSync(join(dirname(path), named), "utf8"))));
    });
});

describe("reference page", () => {
  const page = reference();

  it("describes every field, in both spellings", () => {
    for (const kind of kinds) {
      const spec = readSchema(resources[kind].schema, "input");
      const leaves = fields(spec).filter(({ schema }) => schema.properties === undefined && schema.anyOf === undefined);
      for (const { path } of leaves) assert.ok(page.includes(`\`${path.replaceAll(".[]", "[]")}\``), path);
    }
    assert.ok(page.includes("| `idleSeconds` | `idle_seconds` | integer 0–31536000 | `600` |"));
    assert.ok(page.includes("| `mounts[].source` | `mounts[].source` | string | required | Path on the host |"));
  });

  it("describes every setting, state and error", () => {
    for (const key of keys) assert.ok(page.includes(`| \`${environmentName(key)}\` | \`${tomlName(key)}\` |`), key);
    for (const state of slotStates) assert.ok(page.includes(`| \`${state}\` |`), state);
    for (const [name, [status]] of Object.entries(errorTable)) {
      assert.ok(page.includes(`| \`${name}\` | ${status} |`), name);
    }
  });
});
