import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import type { ModelTask, ModelTaskAnswer } from "../../../src/api/model-task.ts";
import { modelRecordSchema } from "../../../src/api/model.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openModelTaskStore } from "../../../src/store/state/model-tasks.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";

async function send(gateway: TestGateway, method: string, path: string, body?: unknown): Promise<Response> {
  const json =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
  return await fetch(new URL(path, gateway.url), { method, ...json });
}

async function code(answer: Promise<Response>): Promise<string> {
  return (await envelopeOf(await answer)).error.code;
}

async function json(answer: Promise<Response>): Promise<Record<string, unknown>> {
  const response = await answer;
  const value: unknown = await response.json();
  assert.ok(response.ok && isRecord(value), JSON.stringify(value));
  return value;
}

/** Answers tasks in the operator's place. */
async function operate(stateDir: string, answerOf: (task: ModelTask) => Partial<ModelTaskAnswer>) {
  await using stack = new AsyncDisposableStack();
  const store = stack.use(await openModelTaskStore(documentsInFiles(stateDir)));
  const seen: ModelTask[] = [];
  const answer = (): void => {
    for (const task of store.tasks()) {
      if (seen.some(({ id }) => id === task.id)) continue;
      seen.push(task);
      void store.answer({ schema: 1, answers: task.id, answeredAt: new Date().toISOString(), ...answerOf(task) });
    }
  };
  stack.use(store.watch(answer));
  const owned = stack.move();
  return { store, seen, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const model = modelRecordSchema.parse({
  ref: "a",
  origin: "file",
  source: "file:///m/a.gguf",
  state: "available",
  files: ["/m/a.gguf"],
  projectorPath: "/m/mmproj.gguf",
});

it("a removal reports the freed bytes and the files that stay, and its dry run removes nothing", async () => {
  await using gateway = await startGateway({ registry: { models: [model] } });
  const kept = [{ path: "/m/mmproj.gguf", reason: "the model b has it, too" }];
  await using operator = await operate(gateway.stateDir, () => ({ freedBytes: 5, kept }));
  for (const query of ["files=1&dry_run=1", "files=1"]) {
    const removed = await json(send(gateway, "DELETE", `/api/models/a?${query}`));
    assert.deepEqual([removed["id"], removed["freed_bytes"], removed["kept"]], ["a", 5, kept]);
  }
  assert.deepEqual(
    operator.seen.map((task) => (task.kind === "remove" ? [task.files, task.isDryRun] : task.kind)),
    [
      [["/m/a.gguf", "/m/mmproj.gguf"], true],
      [["/m/a.gguf", "/m/mmproj.gguf"], false],
    ],
  );
  await until("answers that were read are gone", () => operator.store.answers().length === 0);
});

it("a removal of a model of FastFlowLM's store names it to the operator", async () => {
  const flm = modelRecordSchema.parse({
    ref: "q",
    origin: "manifest",
    source: "flm://qwen3:4b",
    state: "available",
    path: "/flm/models/Qwen3-4B-NPU2",
  });
  await using gateway = await startGateway({ registry: { models: [flm] } });
  await using operator = await operate(gateway.stateDir, () => ({ freedBytes: 5000, kept: [] }));
  const removed = await json(send(gateway, "DELETE", "/api/models/q?files=1&dry_run=1"));
  assert.equal(removed["freed_bytes"], 5000);
  assert.deepEqual(
    operator.seen.map((task) => (task.kind === "remove" ? task.flm : task.kind)),
    ["qwen3:4b"],
  );
});

it("a found model whose file stays was not removed, and the error says why", async () => {
  await using gateway = await startGateway({ registry: { models: [model] } });
  const kept = [{ path: "/m/a.gguf", reason: "it lies outside" }];
  await using _operator = await operate(gateway.stateDir, () => ({ freedBytes: 0, kept }));
  const refused = await send(gateway, "DELETE", "/api/models/a?files=1");
  const { error } = await envelopeOf(refused);
  assert.deepEqual([refused.status, error.message], [409, "a was not removed: /m/a.gguf stays: it lies outside"]);
});

it("a removal waits in the state directory for the next operator; other tasks are refused without one", async () => {
  await using gateway = await startGateway({ operator: "none", registry: { models: [model] } });
  const removed = await json(send(gateway, "DELETE", "/api/models/a?files=1"));
  assert.equal(removed["freed_bytes"], null);
  await using operator = await operate(gateway.stateDir, () => ({}));
  assert.deepEqual(
    operator.store.tasks().map(({ kind }) => kind),
    ["remove"],
  );
  assert.equal(await code(send(gateway, "POST", "/api/models/gc", {})), "system.overloaded");
  assert.equal(await code(send(gateway, "POST", "/api/models/scan", {})), "system.overloaded");
  assert.equal(await code(send(gateway, "DELETE", "/api/models/a?files=1&dry_run=1")), "system.overloaded");
});

it("a collection lists each file with its size", async () => {
  await using gateway = await startGateway();
  const leftovers = [
    { path: "/m/.berth/blobs/sha256-1", kind: "blob", sizeBytes: 5 },
    { path: "/m/.berth/partial/1", kind: "partial", sizeBytes: 7, source: "hf://o/r/f" },
  ] as const;
  await using _operator = await operate(gateway.stateDir, () => ({ leftovers: [...leftovers], freedBytes: 12 }));
  assert.deepEqual(await json(send(gateway, "POST", "/api/models/gc", { dry_run: true })), {
    dry_run: true,
    bytes: 12,
    files: [
      { path: "/m/.berth/blobs/sha256-1", kind: "blob", size_bytes: 5, source: null },
      { path: "/m/.berth/partial/1", kind: "partial", size_bytes: 7, source: "hf://o/r/f" },
    ],
    kept: [],
  });
});

it("a scan writes manifests of new models when it is asked to, and of no others", async () => {
  await using gateway = await startGateway();
  await using _operator = await operate(gateway.stateDir, () => ({
    models: [
      { ref: "a", files: ["/m/two words.gguf"], capabilities: ["chat"], architecture: "llama", state: "new" },
      { ref: "v/ggml", files: ["/m/ggml.bin"], capabilities: ["stt"], state: "new" },
      { ref: "b", files: ["/m/b.gguf"], capabilities: [], state: "registered" },
    ],
  }));
  const models = join(gateway.stateDir, "config/models");
  const preview = await json(send(gateway, "POST", "/api/models/scan", {}));
  const manifests = (Array.isArray(preview["data"]) ? preview["data"].filter(isRecord) : []).map(
    (row) => row["manifest"],
  );
  assert.deepEqual(manifests, [
    { name: "a", spec: { source: "file:///m/two%20words.gguf" }, written: false },
    { name: "v-ggml", spec: { ref: "v/ggml", source: "file:///m/ggml.bin", capabilities: ["stt"] }, written: false },
    null,
  ]);
  await assert.rejects(readFile(join(models, "a.toml")), { code: "ENOENT" });
  await json(send(gateway, "POST", "/api/models/scan", { write: true }));
  assert.equal(await readFile(join(models, "a.toml"), "utf8"), 'source = "file:///m/two%20words.gguf"\n');
});

it("a scan goes on after a manifest that cannot be written, and says why", async () => {
  await using gateway = await startGateway();
  await using _operator = await operate(gateway.stateDir, () => ({
    models: ["v/a", "v-a", "b"].map((ref) => ({
      ref,
      files: [`/m/${ref}.gguf`],
      capabilities: [],
      state: "new" as const,
    })),
  }));
  const { data } = await json(send(gateway, "POST", "/api/models/scan", { write: true }));
  assert.ok(Array.isArray(data));
  assert.deepEqual(
    data.filter(isRecord).map(({ id, message, manifest }) => [id, message, isRecord(manifest) && manifest["written"]]),
    [
      ["v/a", null, true],
      [
        "v-a",
        "its manifest v-a was not written: v-a is declared already: see `berth model list`, or give the file another name",
        false,
      ],
      ["b", null, true],
    ],
  );
  assert.equal(await readFile(join(gateway.stateDir, "config/models/b.toml"), "utf8"), 'source = "file:///m/b.gguf"\n');
});

it("a scan of other directories, and its manifests, need the right to files of this machine", async () => {
  await using operated = await startGateway({ env: { SVC_API_EXEC: "1" } });
  await using operator = await operate(operated.stateDir, () => ({ models: [] }));
  await json(send(operated, "POST", "/api/models/scan", { directories: ["/srv/models"] }));
  assert.deepEqual(
    operator.seen.map((task) => (task.kind === "scan" ? task.directories : task.kind)),
    [["/srv/models"]],
  );
  await using gateway = await startGateway();
  const refused = await send(gateway, "POST", "/api/models/scan", { directories: ["/srv/models"] });
  const { error } = await envelopeOf(refused);
  assert.deepEqual([refused.status, error.code], [403, "auth.forbidden"]);
  assert.match(error.message, /\/srv\/models is not below the models directory .*: link it there \(ln -s\)/);
  assert.equal(
    await code(send(gateway, "POST", "/api/models/scan", { directories: ["relative"] })),
    "dispatch.invalid_request",
  );
});

it("a scan writes nothing where the configuration is read-only, and a failed one says why", async () => {
  await using gateway = await startGateway();
  await using operator = await operate(gateway.stateDir, () => ({ error: "/m cannot be scanned: it is not there" }));
  const failed = await envelopeOf(await send(gateway, "POST", "/api/models/scan", {}));
  assert.equal(failed.error.message, "/m cannot be scanned: it is not there");
  await mkdir(join(gateway.stateDir, "config"), { recursive: true });
  await writeFile(join(gateway.stateDir, "config/.berth-read-only"), "");
  const before = operator.seen.length;
  assert.equal(await code(send(gateway, "POST", "/api/models/scan", { write: true })), "config.read_only");
  assert.equal(operator.seen.length, before);
  await until("nothing is left of the tasks", () => operator.store.tasks().length === 0);
});

it("a licence's address that is no page of the web is not shown: an earlier operator took any", async () => {
  const [licenseUrl, other] = ["https://x.test/terms", "javascript:alert(1)"];
  const models = [
    { ...model, licenseUrl },
    { ...model, ref: "b", licenseUrl: other },
  ];
  await using gateway = await startGateway({ registry: { models } });
  const { data } = await json(send(gateway, "GET", "/api/models"));
  assert.ok(Array.isArray(data));
  const shown = data.filter(isRecord).map((each) => [String(each["id"]), each["license_url"]] as const);
  assert.deepEqual(Object.fromEntries(shown), { a: licenseUrl, b: null });
});
