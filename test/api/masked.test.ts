import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { literalSecrets, maskedPlan, maskedSpec } from "../../src/api/masked.ts";
import { completeSlot, slotSpecSchema, type SlotSpec, type SlotSpecInput } from "../../src/api/slot.ts";

const slot = (spec: SlotSpecInput): SlotSpec => completeSlot("a", slotSpecSchema.parse(spec));

describe("a slot as callers below admin see it", () => {
  it("hides every value of env, arguments and podTemplate, and is still a valid spec", () => {
    const spec = slot({
      command: ["vllm", "--api-key", "canary"],
      args: ["--token=canary"],
      env: { HF_TOKEN: "canary", KEY: { valueFrom: { file: "/run/key" } } },
      podTemplate: { spec: { canary: "canary" } },
    });
    const masked = maskedSpec(spec);
    assert.doesNotMatch(JSON.stringify(masked), /canary/);
    assert.deepEqual(masked.command, ["vllm", "***", "***"]);
    assert.deepEqual(masked.env, { HF_TOKEN: "***", KEY: { valueFrom: { file: "/run/key" } } });
    slotSpecSchema.parse(masked);
  });

  it("shows the program of a planned command, and masks its arguments", () => {
    const command = "/usr/bin/llama-server --api-key canary";
    const plan = maskedPlan({
      reason: "Starting",
      message: "m",
      steps: [{ do: "start", role: "main", port: 1, command, reason: "r" }],
    });
    assert.deepEqual(plan.steps, [
      { do: "start", role: "main", port: 1, command: "/usr/bin/llama-server ***", reason: "r" },
    ]);
  });
});

describe("secrets in plain text", () => {
  it("are found by name, flag and form", () => {
    const found = literalSecrets(
      slot({
        env: {
          HF_TOKEN: "x",
          OPENAI_API_KEY: "x",
          DB_PASSWORD: "x",
          PLAIN: "hf_abcdefghijkl",
          GOOD: { valueFrom: { file: "/run/key" } },
          MY_TOKEN: "$(GOOD)",
        },
        args: ["--api-key", "x", "--hf-token=y", "--port", "1"],
      }),
    );
    assert.deepEqual(found, ["env.HF_TOKEN", "env.OPENAI_API_KEY", "env.DB_PASSWORD", "env.PLAIN", "args.0", "args.2"]);
  });

  it("are not found in harmless values", () => {
    const env = { TOKENIZERS_PARALLELISM: "1", MAX_TOKENS: "5", KEYBOARD: "de", HF_TOKEN: "" };
    const args = ["--max-tokens", "5", "--api-key", "$(KEY)", "--tokenizer", "x"];
    assert.deepEqual(literalSecrets(slot({ env, args })), []);
  });
});
