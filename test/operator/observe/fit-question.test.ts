import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fitQuestion, type FitQuestion } from "../../../src/operator/observe/fit-question.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";
import { input } from "../../engines/fixture.ts";
import { specOf, workload } from "../fixture.ts";
import { gib, memoryOf } from "../machine.ts";

const hardware = { memory: memoryOf(32 * gib, { limit_bytes: gib, usable_bytes: gib }), gpus: [] };

function question(
  kind: "process" | "docker",
  flags: readonly string[] | undefined,
  embedded?: readonly string[],
): FitQuestion | undefined {
  const server = { flags: flags && new Set(flags), hasTraceLevel: false, devices: [] };
  const llamaServer = embedded === undefined ? "/opt/llama-server" : undefined;
  const command = ["/opt/llama-server", "--port", "8081", "--model", "/models/m.gguf", ...(embedded ?? [])];
  const engine = input({
    spec: specOf({ backend: "cpu", model: { default: "m" } }),
    ref: "m",
    model: undefined,
    host: { llamaServer, ...(embedded === undefined ? { server } : {}), embedded },
    placement: { ...runningIn(kind), backend: "cpu", images: {}, lock: {} },
  });
  return fitQuestion([workload({ command })], engine, hardware, "");
}

describe("the question whether a slot fits", () => {
  it("counts kept prompts only of an engine that keeps any", () => {
    const keptBytes = (flags: readonly string[] | undefined): number | undefined =>
      question("process", flags)?.beside.promptCacheBytes;
    assert.equal(keptBytes(["--model", "--cache-ram"]), 8 * gib);
    assert.equal(keptBytes(["--model"]), 0, "an earlier llama-server");
    assert.equal(keptBytes(undefined), 8 * gib, "it printed no help");
  });

  it("knows how the embedded engine takes memory: a larger program, no kept prompts, and whole texts for vectors", () => {
    const [chat, vectors] = ["--jinja", "--embedding"].map((flag) => question("process", undefined, [flag]));
    assert.deepEqual([chat?.processes[0]?.batchTokens, vectors?.processes[0]?.batchTokens], [256, Infinity]);
    assert.deepEqual([chat?.beside.promptCacheBytes, chat?.bytesPerToken], [0, 800]);
    assert.ok((chat?.beside.processBytes ?? 0) > (question("process", [])?.beside.processBytes ?? 0));
  });

  it("holds containers to the machine's memory, and processes to the control group that they share", () => {
    assert.equal(question("process", [])?.budgets[0]?.totalBytes, gib);
    assert.deepEqual(
      question("docker", [])?.budgets.map(({ id, totalBytes, reason }) => [id, totalBytes, reason]),
      [["host", 32 * gib, "the machine's memory"]],
    );
  });
});
