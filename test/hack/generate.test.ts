import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
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

describe("generated files", () => {
  it("are what src/api says", async () => {
    assert.deepEqual(await stale(root, await generated(root)), []);
  });

  it("are named when they are missing, or changed by a byte", async () => {
    await using directory = await tempDir();
    const wanted = new Map([
      ["docs/a.md", "same\n"],
      ["docs/b.md", "wanted\n"],
      ["crds/c.yaml", "gone\n"],
    ]);
    for (const [path, text] of [
      ["docs/a.md", "same\n"],
      ["docs/b.md", "wanted \n"],
    ] as const) {
      await mkdir(dirname(join(directory.path, path)), { recursive: true });
      await writeFile(join(directory.path, path), text);
    }
    assert.deepEqual(await stale(directory.path, wanted), ["docs/b.md", "crds/c.yaml"]);
  });

  it("are the same twice", async () => {
    assert.deepEqual(await generated(root), await generated(root));
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
    assert.ok(takes(slot, { enabled: true, idle_seconds: 5, model: { default: "tiny", context_size: 2048 } }));
    assert.ok(!takes(slot, { idleSeconds: 5 }));
    assert.ok(!takes(slot, { model: { contextSize: 2048 } }));
    assert.ok(takes(slot, { labels: { myTeam: "a" }, annotations: { b: "c" }, request: { set: { maxTokens: 5 } } }));
    assert.ok(takes(slot, { env: { A: "b", B: { valueFrom: { file: "/run/b" } } } }));
    assert.ok(!takes(slot, { labels: { a: 1 } }));
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
    assert.ok(takes(bare, spec));
    assert.ok(!takes(bare, { ...spec, labels: { a: "b" } }));
    assert.ok(takes(manifest, whole));
    assert.ok(!takes(manifest, { ...whole, kind: "Model" }));
    assert.ok(!takes(manifest, { ...whole, metadata: { name: "Not a name" } }));
    assert.ok(!takes(manifest, { ...whole, spec: { modell: {} } }));
  });

  it("for berth.toml know every setting, with its default", () => {
    const { properties } = z
      .object({ properties: z.record(z.string(), z.looseObject({ default: z.json().optional() })) })
      .parse(configSchema());
    const keys = Object.keys(configShape).filter((key): key is ConfigKey => key in configShape);
    assert.deepEqual(Object.keys(properties), keys.map(tomlName));
    assert.equal(properties["port"]?.default, 8080);
    assert.equal(properties["body_limit"]?.default, 67_108_864);
  });
});

describe("examples", () => {
  const examples = ["primary.toml", "embed.toml", "stt.toml", "tts.toml", "coder.yaml"].map((name) => `slots/${name}`);
  for (const example of examples) {
    const path = join(root, "manifests/examples", example);
    const text = readFileSync(path, "utf8");

    it(`${example} is valid`, () => {
      const declared = readManifests(path, text);
      assert.equal(declared.length, 1);
      assert.deepEqual(declared[0]?.diagnostics, []);
    });

    it(`${example} names its schema in its first line`, () => {
      const [, named] = /^#(?::schema | yaml-language-server: \$schema=)(\S+)\n/.exec(text) ?? [];
      assert.ok(named !== undefined);
      assert.match(named, example.endsWith(".toml") ? /\.toml\.schema\.json$/ : /\.yaml\.schema\.json$/);
      assert.doesNotThrow(() => objectSchema.parse(JSON.parse(readFileSync(join(dirname(path), named), "utf8"))));
    });
  }
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
    const keys = Object.keys(configShape).filter((key): key is ConfigKey => key in configShape);
    for (const key of keys) assert.ok(page.includes(`| \`${environmentName(key)}\` | \`${tomlName(key)}\` |`), key);
    for (const state of slotStates) assert.ok(page.includes(`| \`${state}\` |`), state);
    for (const [name, [status]] of Object.entries(errorTable)) {
      assert.ok(page.includes(`| \`${name}\` | ${status} |`), name);
    }
  });
});
