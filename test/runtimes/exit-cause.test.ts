import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { causeLine, isOutOfMemory } from "../../src/runtimes/exit-cause.ts";
import { lastLine } from "../../src/runtimes/process/exits.ts";
import { tempDir } from "../support/temp-dir.ts";

const recorded = (name: string): string => `test/fixtures/h100/${name}.log`;
const allocating = (mebibytes: string): string =>
  `ggml_backend_cuda_buffer_type_alloc_buffer: allocating ${mebibytes} MiB on device 0: cudaMalloc failed: out of memory`;
const bound = "main: couldn't bind to port";

describe("the words of a llama-server that ended on an H100", () => {
  for (const [name, words] of [
    ["context-too-large", allocating("81920.00")],
    ["weights-too-large", allocating("39939.48")],
    ["no-memory-abort", "CUDA error: out of memory"],
  ] as const) {
    it(`name the cause, not the line that was last, also without --log-prefix: ${name}`, async () => {
      const said = await lastLine(recorded(name), 0);
      assert.equal(said, words);
      assert.ok(isOutOfMemory(said));
      const text = await readFile(recorded(name), "utf8");
      const bare = text.split("\n").map((line) => line.replace(/^\d+(?:\.\d+){3} [A-Z] +/, ""));
      assert.equal(causeLine(bare), words);
    });
  }

  it("are none where the engine was killed: its last output is not the cause", async () => {
    const log = recorded("killed-while-streaming");
    assert.equal(await lastLine(log, 0, undefined, true), "");
    assert.match((await readFile(log, "utf8")).trimEnd(), /processing task, is_child = 0$/);
  });

  for (const [last, said] of [
    ["loaded tiny in 851 ms", ""],
    ["main: model loaded", ""],
    ["GGML_ASSERT(n_tokens > 0) failed", "GGML_ASSERT(n_tokens > 0) failed"],
    ["  what():  std::runtime_error", "what():  std::runtime_error"],
  ] as const)
    it(`of a killed one are ${said === "" ? "none" : "a cause"} where they end in: ${last}`, () =>
      assert.deepEqual([causeLine(["listening", last], true), causeLine([last])], [said, last.trim()]));

  it("are not those of a request that failed long before", () => {
    const nine = Array.from({ length: 9 }, (_, at) => at);
    const bare = nine.map((at) => `slot release: id  0 | task ${at}`);
    assert.equal(causeLine(["send_error: task 7: out of memory", ...bare, bound]), bound);
    const served = nine.map((at) => `0.11.000.00${at} I slot  release: id  0 | task ${at}`);
    const lines = ["0.10.000.000 E srv  send_error: task 7: out of memory", ...served];
    assert.equal(causeLine(lines, true), "");
    assert.equal(causeLine(lines), served.at(-1));
  });
});

it("the cause of a Node program that threw is the exception", async () => {
  await using directory = await tempDir();
  const file = join(directory.path, "log");
  const report = (thrown: string): string =>
    `listening\nfile:///app/engine.ts:3\n    throw er;\n    ^\n\n${thrown}\n    at run (node:net:1:2) {\n  code: 'E'\n}\n\nNode.js v24.1.0\n`;
  for (const [thrown, cause] of [
    ["TypeError [ERR_X]: Unknown option '--name'", "TypeError [ERR_X]: Unknown option '--name'"],
    ["null", "Node.js v24.1.0"],
  ] as const) {
    await writeFile(file, report(thrown));
    assert.equal(await lastLine(file, 0), cause);
  }
});

it("the cause holds no colours, and nothing else that commands a terminal", () => {
  assert.equal(causeLine(["\u001B[31merror: \u009B2Jno model\u001B[0m\r", "\u001B[0m"]), "error: 2Jno model");
});

it("memory that ran out is recognised in the words of each backend, and in nothing else", () => {
  for (const text of [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "ggml_vulkan: Device memory allocation of size 4 failed: ErrorOutOfDeviceMemory",
    "ROCm error: out of memory",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "error loading model: A context size of 65536 is too large for the available VRAM",
  ])
    assert.ok(isOutOfMemory(text), text);
  for (const text of ["exited with code 1", "error loading model: unknown architecture", "allocating 3 MiB"])
    assert.ok(!isOutOfMemory(text), text);
});
