import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { lastLine } from "../../src/runtimes/process/exits.ts";
import { causeLine, isOutOfMemory } from "../../src/runtimes/exit-cause.ts";

const recorded = (name: string): string => `test/fixtures/h100/${name}.log`;
const allocating = (mebibytes: string): string =>
  `ggml_backend_cuda_buffer_type_alloc_buffer: allocating ${mebibytes} MiB on device 0: cudaMalloc failed: out of memory`;

describe("the words of a llama-server that ended on an H100", () => {
  for (const [name, words] of [
    ["context-too-large", allocating("81920.00")],
    ["weights-too-large", allocating("39939.48")],
    ["no-memory-abort", "CUDA error: out of memory"],
  ] as const) {
    it(`name the cause, not the line that was last: ${name}`, async () => {
      const said = await lastLine(recorded(name), 0);
      assert.equal(said, words);
      assert.ok(isOutOfMemory(said));
    });
  }

  for (const [name, words] of [
    ["context-too-large", allocating("81920.00")],
    ["weights-too-large", allocating("39939.48")],
    ["no-memory-abort", "CUDA error: out of memory"],
  ] as const) {
    it(`name the lack of memory as well without --log-prefix: ${name}`, async () => {
      const text = await readFile(recorded(name), "utf8");
      const bare = text.split("\n").map((line) => line.replace(/^\d+(?:\.\d+){3} [A-Z] +/, ""));
      assert.equal(causeLine(bare), words);
    });
  }

  it("name no lack of memory without --log-prefix where a request lacked some long before", () => {
    const served = Array.from({ length: 9 }, (_, at) => `slot release: id  0 | task ${at}`);
    const end = "main: couldn't bind to port";
    assert.equal(causeLine(["send_error: task 7: out of memory", ...served, end]), end);
  });

  it("are none where the engine was killed: its last output is not the cause", async () => {
    const log = recorded("killed-while-streaming");
    assert.equal(await lastLine(log, 0, undefined, true), "");
    assert.match((await readFile(log, "utf8")).trimEnd(), /processing task, is_child = 0$/);
  });

  it("are of the last start alone", async () => {
    const text = await readFile(recorded("context-too-large"), "utf8");
    const later =
      "0.00.001.000 I srv  llama_server: initializing ...\n0.00.002.000 E srv  start: couldn't bind to port\n";
    assert.equal(
      causeLine(`${text}${later}`.split("\n").slice(text.split("\n").length - 1)),
      "srv  start: couldn't bind to port",
    );
  });

  it("are not those of a request that failed long before", () => {
    const old = "0.10.000.000 E srv  send_error: task 7: out of memory";
    const served = Array.from({ length: 9 }, (_, at) => `0.11.000.00${at} I slot  release: id  0 | task ${at}`);
    assert.equal(causeLine([old, ...served], true), "");
    assert.equal(causeLine([old, ...served]), served.at(-1));
  });
});

it("the cause holds no colours, and nothing else that commands a terminal", () => {
  assert.equal(causeLine(["\u001B[31merror: \u009B2Jno model\u001B[0m\r", "\u001B[0m"]), "error: 2Jno model");
});

describe("memory that ran out", () => {
  for (const text of [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    "ggml_vulkan: Device memory allocation of size 4 failed: ErrorOutOfDeviceMemory",
    "ROCm error: out of memory",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "error loading model: A context size of 65536 is too large for the available VRAM",
  ])
    it(`is recognised in: ${text}`, () => assert.ok(isOutOfMemory(text)));
  for (const text of ["exited with code 1", "error loading model: unknown architecture", "allocating 3 MiB"])
    it(`is not recognised in: ${text}`, () => assert.ok(!isOutOfMemory(text)));
});
