import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { it } from "node:test";
import { gzipSync } from "node:zlib";
import { isRecord } from "../../../src/lib/record.ts";
import { Maps } from "../../../src/store/kubernetes/maps.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { until } from "../../support/until.ts";

interface Model {
  readonly ref: string;
  readonly sha256: string;
  readonly path: string;
}

const map = "/api/v1/namespaces/berth/configmaps/berth-registry";
/** Of one object, as the API server has it: ValidateConfigMap in pkg/apis/core/validation/validation.go. */
const largest = 1024 * 1024;

function modelsOf(count: number): readonly Model[] {
  return Array.from({ length: count }, (_, nth) => ({
    ref: `modèle-${nth}`,
    sha256: randomBytes(32).toString("hex"),
    path: `/models/${"a-long-directory/".repeat(90)}model-${nth}.gguf`,
  }));
}

/** Of that many characters, as JSON. */
function textModels(length: number): readonly Model[] {
  const models = [{ ref: "m", sha256: "", path: "" }];
  return [{ ref: "m", sha256: "", path: "a".repeat(length - JSON.stringify(models).length) }];
}

const isModels = (value: unknown): value is readonly Model[] => Array.isArray(value) && value.every(isRecord);

async function open(api: ApiDouble) {
  const maps = await Maps.open({ client: api, kind: "ConfigMap", onError: (error) => assert.fail(String(error)) });
  /** The names of each report of changes. */
  const reports: (readonly string[])[] = [];
  const documents = await maps.documents<readonly Model[]>("registry", {
    parse: (value) => (isModels(value) ? value : undefined),
    onChange: (names) => void reports.push(names),
  });
  return { maps, documents, reports };
}

function entriesOf(api: ApiDouble): Readonly<Record<string, unknown>> {
  const data = api.get(map)?.["data"];
  assert.ok(isRecord(data));
  return data;
}

it("a document of megabytes fits an object, is read whole, and is plain text again once it is short", async () => {
  const api = new ApiDouble();
  const writer = await open(api);
  const reader = await open(api);
  const entries = (): Readonly<Record<string, unknown>> => entriesOf(api);
  for (const count of [10, 1000, 20]) {
    const models = modelsOf(count);
    await writer.documents.put("registry", models);
    await until(`${count} are read`, () => reader.documents.get("registry")?.length === count);
    assert.deepEqual(reader.documents.get("registry"), models);
    assert.deepEqual(Object.keys(entries()), [count === 1000 ? "registry.json.gz" : "registry.json"]);
    const [text] = Object.values(entries());
    assert.ok(typeof text === "string" && Buffer.byteLength(text) < largest, String(count));
  }
  await writer.documents.put("registry", modelsOf(1000));
  await writer.documents.delete("registry");
  assert.deepEqual(entries(), {});
  await until("it is gone for the reader", () => reader.documents.get("registry") === undefined);
  // A document, were it not for its length.
  const bomb = gzipSync(`[]${" ".repeat(100 * 1024 * 1024)}`, { level: 9 }).toString("base64");
  await writer.maps.write("berth-registry", { "registry.json.gz": bomb });
  await writer.documents.put("other", modelsOf(1));
  await until("it goes on reading", () => reader.documents.get("other")?.length === 1);
  assert.equal(reader.documents.get("registry"), undefined);
  for (const { maps } of [writer, reader]) await maps[Symbol.asyncDispose]();
});

it("a document is compressed only where the object has no room for it beside the other entries", async () => {
  const api = new ApiDouble();
  await using stack = new AsyncDisposableStack();
  const { maps, documents } = await open(api);
  stack.use(maps);
  const long = textModels(1000 * 1024);
  await documents.put("registry", long);
  await documents.put("registry", long);
  assert.deepEqual(Object.keys(entriesOf(api)), ["registry.json"]);
  await documents.put("registry", textModels(1020 * 1024));
  assert.deepEqual(Object.keys(entriesOf(api)), ["registry.json.gz"]);
  await documents.put("other", textModels(100 * 1024));
  await documents.put("registry", long);
  assert.deepEqual(Object.keys(entriesOf(api)).toSorted(), ["other.json", "registry.json.gz"]);
  await documents.put("other", textModels(8 * 1024));
  await documents.put("registry", long);
  assert.deepEqual(Object.keys(entriesOf(api)).toSorted(), ["other.json", "registry.json"]);
});
