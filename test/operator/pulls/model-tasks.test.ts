import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pino } from "pino";
import { modelRecordSchema, type ModelRecord } from "../../../src/api/model.ts";
import type { ModelTaskAnswer } from "../../../src/api/model-task.ts";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { ModelScan } from "../../../src/models/scan.ts";
import { ModelTasks, type ModelTasksOptions } from "../../../src/operator/pulls/model-tasks.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

type Started = Partial<Pick<ModelTasksOptions, "isPaused" | "keepMs" | "flm" | "records" | "scan" | "listHub">>;

async function site() {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const modelsDir = join(directory.path, "models");
  await mkdir(modelsDir);
  const store = await BlobStore.open(modelsDir, "this boot");
  // As a gateway and an operator have them: two views of one directory.
  const asking = stack.use(await sharedSets(directory.path));
  const owned = stack.move();
  return {
    modelsDir,
    store,
    /** An operator, from here on. */
    async start(more: Started = {}) {
      await using running = new AsyncDisposableStack();
      const sets = running.use(await sharedSets(directory.path));
      const options = {
        sets,
        modelsDir,
        store,
        pulls: { list: () => [], remove: async () => 7 },
        scan: new ModelScan(modelsDir),
        listHub: async () => ({ models: [], leftOut: 0 }),
        records: () => [],
        log: pino({ level: "silent" }),
        isPaused: false,
      };
      running.use(new ModelTasks({ ...options, ...more }));
      return running.move();
    },
    put: async (task: Record<string, unknown> & { kind: string }): Promise<string> => {
      const id = randomUUID();
      const whole = { schema: 1, id, requestedAt: new Date().toISOString(), ...task };
      await writeFile(join(directory.path, "model-tasks", `${id}.json`), JSON.stringify(whole));
      return id;
    },
    answer: async (id: string): Promise<ModelTaskAnswer> =>
      await until("the operator has answered", () => asking.modelAnswers.get(id)),
    isStored: (set: "model-tasks" | "model-answers", id: string): boolean =>
      existsSync(join(directory.path, set, `${id}.json`)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

it("carries out tasks that were requested while no operator ran, and each task once", async () => {
  await using at = await site();
  const path = join(at.modelsDir, "a.gguf");
  await writeFile(path, "12345");
  const id = await at.put({ kind: "remove", ref: "a", files: [path], isDryRun: false });
  await using _operator = await at.start();
  const { freedBytes, kept, error } = await at.answer(id);
  assert.deepEqual([freedBytes, kept, error], [12, [], undefined]);
  assert.equal(existsSync(path), false);
  await until("the task is over", () => !at.isStored("model-tasks", id));
});

it("answers a scan, also with the problem of the directory", async () => {
  await using at = await site();
  await using _operator = await at.start();
  await writeFile(join(at.modelsDir, "a.gguf"), "GGUF");
  const found = await at.answer(await at.put({ kind: "scan", directories: [] }));
  assert.deepEqual(
    found.models?.map(({ ref, state }) => [ref, state]),
    [["a", "invalid"]],
  );
  const nowhere = join(at.modelsDir, "nowhere");
  const failed = await at.answer(await at.put({ kind: "scan", directories: [nowhere] }));
  assert.equal(failed.error, `${nowhere} cannot be scanned: it is not there`);
});

it("collects unused files, and changes nothing with --paused", async () => {
  await using at = await site();
  const lost = at.store.blobPath("f".repeat(64));
  await writeFile(lost, "12345");
  {
    await using _paused = await at.start({ isPaused: true });
    const refused = await at.answer(await at.put({ kind: "collect", isDryRun: false }));
    assert.equal(refused.error, "this operator was started with --paused: it changes nothing");
    assert.equal(existsSync(lost), true);
  }
  await using _operator = await at.start();
  const done = await at.answer(await at.put({ kind: "collect", isDryRun: false }));
  assert.deepEqual([done.leftovers, done.freedBytes], [[{ path: lost, kind: "blob", sizeBytes: 5 }], 5]);
  assert.equal(existsSync(lost), false);
});

it("deletes an answer that nobody has read once its time is over, though nothing else happens", async () => {
  await using at = await site();
  const id = await at.put({ kind: "scan", directories: [] });
  await using _operator = await at.start({ keepMs: 50 });
  // The answer is written before the task is deleted.
  await until("the task is answered", () => !at.isStored("model-tasks", id));
  await until("the answer is gone", () => !at.isStored("model-answers", id));
});

it("removes a model of FastFlowLM's store by its tool, unless another model has it, and names what stays", async () => {
  await using at = await site();
  const removed: string[] = [];
  const directory = "/srv/flm/models/Qwen3-4B-NPU2";
  const flm = {
    stored: async () => ({ directory, sizeBytes: 5000 }),
    remove: async (tag: string) => {
      removed.push(tag);
      return 5000;
    },
  };
  let records: ModelRecord[] = [];
  await using _operator = await at.start({ flm, records: () => records });
  const remove = async (isDryRun: boolean): Promise<ModelTaskAnswer> =>
    await at.answer(await at.put({ kind: "remove", ref: "q", files: [], flm: "qwen3:4b", isDryRun }));
  const dry = await remove(true);
  assert.deepEqual([dry.freedBytes, dry.kept, removed], [5000, [], []]);
  const shared = { ref: "other", origin: "manifest", source: "flm://qwen3:4b", state: "available" };
  records = [modelRecordSchema.parse(shared)];
  const kept = await remove(false);
  assert.deepEqual([kept.freedBytes, kept.kept], [7, [{ path: directory, reason: "the model other has it, too" }]]);
  records = [];
  const done = await remove(false);
  assert.deepEqual([done.freedBytes, done.kept, removed], [5007, [], ["qwen3:4b"]]);
  flm.stored = async () => await Promise.reject(new Error("there is no `flm` on the PATH of the operator"));
  const lost = await remove(false);
  assert.deepEqual(lost.kept, [{ path: "flm://qwen3:4b", reason: "there is no `flm` on the PATH of the operator" }]);
});

describe("a listing of a repository of the hub", () => {
  const wanted = { kind: "hub", owner: "o", repo: "r", revision: "main" };

  it("is answered beside a task that takes long, and says why there is none", async () => {
    await using at = await site();
    const { promise: scanned, resolve } = Promise.withResolvers<[]>();
    const asked: string[] = [];
    const models = [{ paths: ["a.gguf"], sizeBytes: 1 }];
    const listHub: ModelTasksOptions["listHub"] = async ({ owner, repo, revision }) => {
      asked.push(`${owner}/${repo}@${revision}`);
      if (repo === "r") return { models, leftOut: 0 };
      throw new FetchError("SourceNotFound", "there is no such repository");
    };
    await using _operator = await at.start({ scan: { find: async () => await scanned }, listHub });
    const scan = await at.put({ kind: "scan", directories: [] });
    const found = await at.answer(await at.put(wanted));
    assert.deepEqual(found.hub, { models, leftOut: 0 });
    const lost = await at.answer(await at.put({ ...wanted, repo: "lost" }));
    assert.deepEqual([lost.reason, lost.error], ["SourceNotFound", "there is no such repository"]);
    resolve([]);
    await at.answer(scan);
    assert.deepEqual(asked, ["o/r@main", "o/lost@main"]);
  });

  it("is answered by an operator that changes nothing", async () => {
    await using at = await site();
    await using _paused = await at.start({ isPaused: true });
    assert.deepEqual((await at.answer(await at.put(wanted))).hub, { models: [], leftOut: 0 });
  });

  it("ends with the operator, and the next one begins it again", async () => {
    await using at = await site();
    const { promise: begun, resolve } = Promise.withResolvers<AbortSignal>();
    const listHub: ModelTasksOptions["listHub"] = async (_repository, signal) => {
      resolve(signal);
      return await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    };
    const operator = await at.start({ listHub });
    const id = await at.put(wanted);
    const signal = await begun;
    await operator.disposeAsync();
    assert.equal(signal.aborted, true);
    await using _next = await at.start();
    assert.deepEqual((await at.answer(id)).hub, { models: [], leftOut: 0 });
  });
});
