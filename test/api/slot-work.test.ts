import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ModelRecord } from "../../src/api/model.ts";
import { wrongWork } from "../../src/api/slot-work.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../src/api/slot.ts";

function told(slot: string, capabilities: ModelRecord["capabilities"], spec: SlotSpecInput = {}): string | undefined {
  return wrongWork(slot, completeSlot(slot, slotSpecSchema.parse(spec)), { ref: "m", capabilities });
}

describe("a built-in slot", () => {
  it("is refused a model that cannot do the slot's kind of work", () => {
    const message = "slot primary chats, and m can only embed: give it another model, or this model another slot";
    assert.equal(told("primary", ["embed"]), message);
    assert.match(told("primary", ["embed", "rerank"]) ?? "", /can only embed and rerank/);
    assert.match(told("embed", ["stt"]) ?? "", /^slot embed embeds/);
    assert.match(told("stt", ["chat"]) ?? "", /^slot stt transcribes/);
    assert.match(told("tts", ["chat"]) ?? "", /^slot tts speaks/);
    assert.match(told("img", ["chat"]) ?? "", /^slot img draws/);
  });

  it("accepts a model that can do the work, also among other work or where its capabilities are unknown", () => {
    assert.equal(told("primary", ["chat", "embed"]), undefined);
    assert.equal(told("primary", []), undefined);
    assert.equal(told("embed", ["rerank"]), undefined);
    assert.equal(told("embed", ["chat"]), undefined);
    assert.equal(told("coder", ["embed"]), undefined, "it is no built-in one");
    assert.equal(told("primary", ["embed"], { engine: "custom", command: ["run"] }), undefined);
  });
});
