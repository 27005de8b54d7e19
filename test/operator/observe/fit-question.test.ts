import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { completeSlot, slotSpecSchema } from "../../../src/api/slot.ts";
import type { Workload } from "../../../src/api/workload.ts";
import { fitQuestion, type FitQuestion } from "../../../src/operator/observe/fit-question.ts";
import { runningIn } from "../../doubles/runtime-kinds.ts";

const gib = 1024 ** 3;
const workload: Workload = {
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "h",
  runtime: "process",
  command: ["/opt/llama-server", "--port", "8081", "--model", "/models/m.gguf"],
  env: {},
  workingDir: undefined,
  port: 8081,
  stopSeconds: 30,
};
const hardware: Pick<HardwareFacts, "memory" | "gpus"> = {
  memory: {
    total_bytes: 32 * gib,
    available_bytes: 16 * gib,
    swap_bytes: 0,
    limit_bytes: gib,
    usable_bytes: gib,
    evidence: [],
  },
  gpus: [],
};

function question(
  kind: "process" | "docker",
  flags: readonly string[] | undefined,
  embedded?: readonly string[],
): FitQuestion | undefined {
  const server = { flags: flags && new Set(flags), hasTraceLevel: false, devices: [] };
  return fitQuestion(
    [{ ...workload, command: [...workload.command, ...(embedded ?? [])] }],
    {
      slot: "primary",
      spec: completeSlot("primary", slotSpecSchema.parse({ backend: "cpu", model: { default: "m" } })),
      ref: "m",
      model: undefined,
      rerankModel: undefined,
      host:
        embedded === undefined
          ? { llamaServer: "/opt/llama-server", server, embedded }
          : { llamaServer: undefined, embedded },
      placement: { ...runningIn(kind), backend: "cpu", images: {}, lock: {} },
    },
    hardware,
    "",
  );
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
