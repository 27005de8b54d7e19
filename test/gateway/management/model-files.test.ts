import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { ModelTask, ModelTaskAnswer } from "../../../src/api/model-task.ts";
import { modelRecordSchema } from "../../../src/api/model.ts";
import { openRemovals } from "../../../src/store/state/removals.ts";
import { until } from "../../support/until.ts";
import { answerTasks, refusalOf, rowsOf, site, type Site } from "./fixture.ts";

const found = (ref: string, more: object = {}) =>
  modelRecordSchema.parse({ ref, origin: "file", source: `file:///m/${ref}`, state: "available", ...more });
const withFile = (ref: string, file: string) => found(ref, { files: [file] });
const licenseUrl = "https://x.test/terms";

const models = [
  found("a", { files: ["/m/a.gguf"], projectorPath: "/m/mmproj.gguf", licenseUrl }),
  withFile("test-model", "/m/test-model.gguf"),
  found("spare"),
  withFile("ranker", "/m/ranker.gguf"),
  withFile("same-file", "/m/ranker.gguf"),
  withFile("eyes", "/m/eyes.gguf"),
  found("tiny-embed", { capabilities: ["embed"] }),
  found("q", { origin: "manifest", source: "flm://qwen3:4b", path: "/flm/models/Qwen3-4B-NPU2" }),
  found("vendor/here:free", { origin: "manifest", name: "here" }),
  found("vendor/gone:free", { origin: "manifest", name: "gone" }),
];

describe("/api/models", () => {
  let at: Site;
  let operator: Awaited<ReturnType<typeof answerTasks>>;
  let answer: Partial<ModelTaskAnswer> = {};
  before(async () => {
    const embedSpec = {
      engine: "llama",
      model: { default: "embedder", rerank: "ranker", projector: "/m/eyes.gguf" },
    } as const;
    at = await site({
      slots: {
        primary: { port: 2, spec: { engine: "llama" }, status: { model: { ref: "chatty", origin: "spec" } } },
        holder: { port: 1, status: { backend: "vulkan" } },
        embed: { port: 1, rerankPort: 2, spec: embedSpec, status: { model: { ref: "embedder", origin: "spec" } } },
      },
      registry: { models: [...models] },
    });
    operator = await answerTasks(at.stateDir, () => answer);
  });
  after(async () => {
    await operator[Symbol.asyncDispose]();
    await at[Symbol.asyncDispose]();
  });
  /** The tasks that the operator gets by `act`, and answers in this way. */
  async function tasksOf(answered: Partial<ModelTaskAnswer>, act: () => Promise<unknown>): Promise<ModelTask[]> {
    answer = answered;
    const before = operator.seen.length;
    await act();
    return operator.seen.slice(before);
  }

  it("shows the backend of the slot that holds a model, and the address of its licence", async () => {
    const rows = new Map(rowsOf(await at.got("/api/models")).map((row) => [row["id"], row]));
    assert.deepEqual([rows.get("test-model")?.["backend"], rows.get("spare")?.["backend"]], ["vulkan", null]);
    assert.deepEqual([rows.get("a")?.["license_url"], rows.get("spare")?.["license_url"]], [licenseUrl, null]);
  });

  it("removes a model, and reports the freed bytes and the files that stay; a dry run removes nothing", async () => {
    const kept = [{ path: "/m/mmproj.gguf", reason: "the model b has it, too" }];
    const tasks = await tasksOf({ freedBytes: 5, kept }, async () => {
      for (const query of ["files=1&dry_run=1", "files=1"]) {
        const removed = await at.got(`/api/models/a?${query}`, "DELETE");
        assert.partialDeepStrictEqual(removed, { id: "a", freed_bytes: 5, kept });
      }
    });
    const files = ["/m/a.gguf", "/m/mmproj.gguf"];
    assert.partialDeepStrictEqual(tasks, [
      { kind: "remove", files, isDryRun: true },
      { kind: "remove", files, isDryRun: false },
    ]);
    await until("answers that were read are gone", () => operator.sets.modelAnswers.list().length === 0);
    const ofFlm = await tasksOf({ freedBytes: 5, kept: [] }, () => at.got("/api/models/q?files=1&dry_run=1", "DELETE"));
    assert.partialDeepStrictEqual(ofFlm, [{ kind: "remove", flm: "qwen3:4b" }]);
  });

  it("says why a found model whose file stays was not removed", async () => {
    answer = { freedBytes: 0, kept: [{ path: "/m/a.gguf", reason: "it lies outside" }] };
    const { is, message } = await at.refused("DELETE", "/api/models/a?files=1");
    assert.match(is, /^409 /);
    assert.equal(message, "a was not removed: /m/a.gguf stays: it lies outside");
  });

  it("removes no model that a slot holds, nor a file that its second process or its projector needs", async () => {
    for (const [path, is] of [
      ["test-model?files=1", "409 model.in_use"],
      ["test-model?force=1", "400 dispatch.invalid_request"],
      ["ranker?files=1", "409 model.in_use"],
      ["same-file?files=1", "409 model.in_use"],
      ["eyes?files=1", "409 model.in_use"],
      ["nobody", "404 model.not_found"],
    ] as const)
      assert.equal((await at.refused("DELETE", `/api/models/${path}`)).is, is, path);
    assert.deepEqual((await at.got("/api/models/same-file"))["slots"], ["embed"]);
    const forced = await tasksOf({ freedBytes: 1 }, () => at.got("/api/models/test-model?force=1&files=1", "DELETE"));
    assert.partialDeepStrictEqual(forced, [{ ref: "test-model", files: ["/m/test-model.gguf"] }]);
  });

  it("removes the manifest of a declared model, or leaves a removal request where the manifest is gone", async () => {
    await at.declare("models/here.toml", 'ref = "vendor/here:free"\nsource = "file:///here.gguf"\n');
    for (const name of ["here", "gone"]) await at.got(`/api/models/vendor/${name}:free`, "DELETE");
    await assert.rejects(at.written("models/here.toml"), { code: "ENOENT" });
    await using removals = await openRemovals(at.stateDir);
    const asked = removals.list().map(({ kind, name }) => `${kind} ${name}`);
    assert.deepEqual(asked.toSorted(), ["Model gone", "Model here"]);
  });

  it("gives no built-in slot a model that cannot do its work, by a swap, an assignment or a manifest", async () => {
    for (const [method, path, body] of [
      ["POST", "/api/slots/primary/swap", { model: "tiny-embed" }],
      ["POST", "/api/slots/primary/swap", { model: "tiny-embed", write: true }],
      ["POST", "/api/models/tiny-embed/assign", { slot: "primary" }],
      ["PUT", "/api/slots/primary", { model: { default: "tiny-embed" } }],
      ["POST", "/api/slots", { name: "stt", model: { default: "tiny-embed" } }],
    ] as const) {
      const { is, message } = await at.refused(method, path, body);
      assert.equal(is, "422 config.invalid", path);
      assert.match(message, /^slot (primary chats|stt transcribes), and tiny-embed can only embed/);
    }
  });

  it("collects leftovers, and lists each file with its size", async () => {
    const [blob, partial] = [
      { path: "/m/.berth/blobs/sha256-1", kind: "blob" },
      { path: "/m/.berth/partial/1", kind: "partial", source: "hf://o/r/f" },
    ] as const;
    const leftovers = [blob, partial].map((file) => ({ ...file, sizeBytes: 6 }));
    answer = { leftovers, freedBytes: 12 };
    const files = [
      { ...blob, size_bytes: 6, source: null },
      { ...partial, size_bytes: 6 },
    ];
    const collected = await at.got("/api/models/gc", "POST", { dry_run: true });
    assert.deepEqual(collected, { dry_run: true, bytes: 12, files, kept: [] });
  });

  it("writes manifests of the new models of a scan when it is asked to, and of no others", async () => {
    answer = {
      models: [
        { ref: "new", files: ["/m/two words.gguf"], capabilities: ["chat"], architecture: "llama", state: "new" },
        { ref: "v/ggml", files: ["/m/ggml.bin"], capabilities: ["stt"], state: "new" },
        { ref: "known", files: ["/m/b.gguf"], capabilities: [], state: "registered" },
      ],
    };
    const preview = rowsOf(await at.got("/api/models/scan", "POST", {}));
    const ggml = { ref: "v/ggml", source: "file:///m/ggml.bin", capabilities: ["stt"] };
    assert.deepEqual(
      preview.map((row) => row["manifest"]),
      [
        { name: "new", spec: { source: "file:///m/two%20words.gguf" }, written: false },
        { name: "v-ggml", spec: ggml, written: false },
        null,
      ],
    );
    await assert.rejects(at.written("models/new.toml"), { code: "ENOENT" });
    await at.got("/api/models/scan", "POST", { write: true });
    assert.equal(await at.written("models/new.toml"), 'source = "file:///m/two%20words.gguf"\n');
  });

  it("goes on with a scan after a manifest that cannot be written, and says why", async () => {
    const files = (ref: string) => ({ ref, files: [`/m/${ref}.gguf`], capabilities: [], state: "new" as const });
    answer = { models: ["v/a", "v-a", "last"].map(files) };
    const rows = rowsOf(await at.got("/api/models/scan", "POST", { write: true }));
    const why =
      "its manifest v-a was not written: v-a is declared already: see `berth model list`, or give the file another name";
    assert.partialDeepStrictEqual(rows, [
      { id: "v/a", message: null, manifest: { written: true } },
      { id: "v-a", message: why, manifest: { written: false } },
      { id: "last", message: null, manifest: { written: true } },
    ]);
    assert.equal(await at.written("models/last.toml"), 'source = "file:///m/last.gguf"\n');
  });

  it("refuses a scan of other directories, and says why one failed", async () => {
    const { is, message } = await at.refused("POST", "/api/models/scan", { directories: ["/srv/models"] });
    assert.equal(is, "403 auth.forbidden");
    assert.match(message, /\/srv\/models is not below the models directory .*: link it there \(ln -s\)/);
    const relative = await at.refused("POST", "/api/models/scan", { directories: ["relative"] });
    assert.equal(relative.is, "400 dispatch.invalid_request");
    answer = { error: "/m cannot be scanned: it is not there" };
    const failed = await at.refused("POST", "/api/models/scan", {});
    assert.equal(failed.message, "/m cannot be scanned: it is not there");
    await until("nothing is left of the tasks", () => operator.sets.modelTasks.list().length === 0);
  });
});

it("a removal waits in the state directory for the next operator; other tasks are refused without one", async () => {
  await using at = await site({ operator: "none", registry: { models } });
  assert.equal((await at.got("/api/models/a?files=1", "DELETE"))["freed_bytes"], null);
  for (const [method, path] of [
    ["POST", "/api/models/gc"],
    ["POST", "/api/models/scan"],
    ["DELETE", "/api/models/a?files=1&dry_run=1"],
  ] as const) {
    const body = method === "POST" ? {} : undefined;
    assert.equal((await refusalOf(await at.send(method, path, body))).is, "503 system.overloaded", path);
  }
  await using next = await answerTasks(at.stateDir);
  await until("the next operator has it", () => next.seen.length > 0);
  assert.equal(next.seen.map(({ kind }) => kind).join(), "remove");
});
