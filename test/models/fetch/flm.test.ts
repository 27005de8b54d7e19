import assert from "node:assert/strict";
import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { it } from "node:test";
import { modelSpecSchema } from "../../../src/api/model.ts";
import { FactCache } from "../../../src/models/facts.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { FlmTool } from "../../../src/models/fetch/flm.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { declaredRecord } from "../../../src/models/record.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

/**
 * As FastFlowLM 1.0 behaves: lists beside its program, `name` below `models` of its store, and a `pull` that ends with
 * 0 and leaves a part of a file. `forced` is what it does with `--force`, `removed` what `flm remove TAG` does.
 */
async function site(pulled: string, forced = "", removed = "rm config.json model.q4nx") {
  const directory = await tempDir();
  const share = join(directory.path, "share/flm");
  const bin = join(directory.path, "bin");
  const store = join(directory.path, "store");
  const model = join(store, "models/Qwen3-4B-NPU2");
  for (const path of [share, bin, model]) await mkdir(path, { recursive: true });
  const files = ["config.json", "model.q4nx"];
  const list = { model_path: "models", models: { qwen3: { "4b": { name: "Qwen3-4B-NPU2", size: 1, files } } } };
  await writeFile(join(share, "model_list.json"), JSON.stringify(list));
  const sizes = [
    { path: "config.json", size: 2 },
    { path: "model.q4nx", size: 10 },
    { path: "README.md", size: 99 },
  ];
  await writeFile(join(share, "model_info.json"), JSON.stringify({ "qwen3:4b": sizes }));
  const calls = join(directory.path, "calls");
  const program = `#!/bin/sh
echo "$@" >> ${calls}
cd ${model} || exit 9
yes progress | head -c 2000000
case "$*" in remove*) ${removed} ;; *--force) ${forced || "true"} ;; *) ${pulled} ;; esac
`;
  await writeFile(join(bin, "flm"), program);
  await chmod(join(bin, "flm"), 0o755);
  const env = { PATH: [bin, process.env["PATH"]].join(delimiter), FLM_MODEL_PATH: store, HF_TOKEN: "secret" };
  return {
    env,
    model,
    tool: (stallMs?: number) => new FlmTool(env, stallMs),
    calls: async () => (await readFile(calls, "utf8")).trim().split("\n"),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const whole = "printf '{}' > config.json; printf 0123456789 > model.q4nx";
const part = "printf '{}' > config.json; printf 01234 > model.q4nx";
const { signal } = new AbortController();

it("a model is fetched by flm, and is there once every file has the size of FastFlowLM's list", async () => {
  await using at = await site(whole);
  const tool = at.tool();
  const model = { name: "q", spec: modelSpecSchema.parse({ source: "flm://qwen3:4b" }), since: new Date(0) };
  const record = async () => await declaredRecord(new FactCache(), model, new Map(), { flm: tool });
  const before = await record();
  assert.deepEqual(
    [before.state, before.reason, before.fetch?.files],
    ["missing", "NotFetched", [{ source: "flm://qwen3:4b" }]],
  );
  let ends = 0;
  using _watch = tool.watch(() => (ends += 1));
  const progress = newProgress();
  await tool.fetch("qwen3:4b", progress, signal);
  assert.deepEqual([progress.bytesDone, progress.bytesTotal, tool.sizeOf("qwen3:4b"), ends], [12, 12, 12, 1]);
  assert.deepEqual(await at.calls(), ["pull qwen3:4b"]);
  const after = await record();
  assert.deepEqual([after.state, after.path, after.sizeBytes], ["available", at.model, 12]);
});

it("part of a file is fetched again with --force, and a second part is an error", async () => {
  await using mended = await site(part, whole);
  await mended.tool().fetch("qwen3:4b", newProgress(), signal);
  assert.deepEqual(await mended.calls(), ["pull qwen3:4b", "pull qwen3:4b --force"]);
  await using broken = await site(part, part);
  const error = await rejectionOf(broken.tool().fetch("qwen3:4b", newProgress(), signal), FetchError);
  assert.deepEqual(
    [error.reason, error.isTerminal, error.message],
    [
      "SizeMismatch",
      true,
      "`flm pull qwen3:4b --force` has left files that are not whole: model.q4nx has 5 bytes, not 10",
    ],
  );
});

it("a pull that fails, hangs or is aborted ends with its program", async () => {
  await using failing = await site("echo 'no network' >&2; exit 3");
  const failed = await rejectionOf(failing.tool().fetch("qwen3:4b", newProgress(), signal), FetchError);
  assert.equal(failed.isTerminal, false);
  assert.match(failed.message, /`flm pull qwen3:4b` has failed: .*flm ended with 3: no network/);
  await using hanging = await site("echo $$ > pid; sleep 600");
  const stalled = await rejectionOf(hanging.tool(1500).fetch("qwen3:4b", newProgress(), signal), FetchError);
  assert.match(stalled.message, /has written nothing for 1.5 s/);
  // A busy machine may have ended the first before it wrote its call.
  const callsOf = async (): Promise<number> => (await hanging.calls().catch(() => [])).length;
  const before = await callsOf();
  const stop = new AbortController();
  const ended = rejectionOf(hanging.tool().fetch("qwen3:4b", newProgress(), stop.signal), Error);
  await until("it has begun", async () => (await callsOf()) > before);
  stop.abort(new Error("paused"));
  assert.match((await ended).message, /paused/);
});

it("says that flm is missing, or does not know the model", async () => {
  await using at = await site(whole);
  const unknown = await at.tool().observe("qwen9:1b");
  assert.deepEqual(unknown, { state: "unavailable", message: "FastFlowLM has no model qwen9:1b: see `flm list`" });
  const none = await new FlmTool({ PATH: "/nowhere" }).observe("qwen3:4b");
  assert.match(none.state === "unavailable" ? none.message : "", /there is no `flm` on the PATH of the operator$/);
  const error = await rejectionOf(new FlmTool({ PATH: "" }).fetch("qwen3:4b", newProgress(), signal), FetchError);
  assert.equal(error.reason, "ToolFailed");
});

it("a model is removed by flm, and files that it leaves are an error", async () => {
  await using at = await site(whole);
  const tool = at.tool();
  await tool.fetch("qwen3:4b", newProgress(), signal);
  assert.deepEqual(await tool.stored("qwen3:4b"), { directory: at.model, sizeBytes: 12 });
  assert.equal(await tool.remove("qwen3:4b", signal), 12);
  assert.deepEqual(await at.calls(), ["pull qwen3:4b", "remove qwen3:4b"]);
  assert.deepEqual(await tool.stored("qwen3:4b"), { directory: at.model, sizeBytes: 0 });
  await using broken = await site(whole, "", "rm config.json");
  await broken.tool().fetch("qwen3:4b", newProgress(), signal);
  const left = await rejectionOf(broken.tool().remove("qwen3:4b", signal), FetchError);
  assert.equal(left.message, "`flm remove qwen3:4b` has left 10 bytes: delete it by hand");
  await using failing = await site(whole, "", "echo 'in use' >&2; exit 3");
  const failed = await rejectionOf(failing.tool().remove("qwen3:4b", signal), FetchError);
  assert.match(failed.message, /^`flm remove qwen3:4b` has failed: .*flm ended with 3: in use/);
});
