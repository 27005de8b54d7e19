import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { capabilitiesOf, workloadsOf } from "../../src/engines/engine.ts";
import { llama } from "../../src/engines/llama.ts";
import { input, model } from "./fixture.ts";

const embedder = model({ ref: "e5", path: "/models/e5.gguf", capabilities: ["embed"], pooling: "cls" });

describe("a built-in slot with a model for other work", () => {
  it("is refused with the reason, and still claims its own routes: a chat gets the failure", () => {
    const wrong = input({ ref: "e5", model: embedder });
    assert.deepEqual(workloadsOf(llama, wrong), {
      reason: "NoCapability",
      message: "slot primary chats, and e5 can only embed: give it another model, or this model another slot",
    });
    assert.deepEqual(capabilitiesOf(llama, wrong), ["chat", "completions"]);
  });

  it("does not matter for a slot of another name", () => {
    const right = input({ slot: "texts", ref: "e5", model: embedder });
    assert.ok(Array.isArray(workloadsOf(llama, right)));
    assert.deepEqual(capabilitiesOf(llama, right), ["embeddings"]);
  });
});
