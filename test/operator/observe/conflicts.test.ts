import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpec, SlotSpecInput } from "../../../src/api/slot.ts";
import { ConflictIndex } from "../../../src/operator/observe/conflicts.ts";
import { specOf } from "../fixture.ts";

const spec = (input: SlotSpecInput): SlotSpec => specOf({ model: { default: "tiny" }, ...input }, "x");
const none = { port: undefined, aliases: [] };

test("the slot that holds a port keeps it; a later slot gets a conflict, and the port once it is free", () => {
  const index = new ConflictIndex();
  index.update("zeta", spec({ port: 8085 }));
  index.update("alpha", spec({ port: 8085 }));
  assert.deepEqual(index.of("zeta"), none);
  assert.deepEqual(index.of("alpha"), { port: { port: 8085, holder: "zeta" }, aliases: [] });
  assert.deepEqual(index.update("zeta", spec({ port: 8086 })), ["alpha"]);
  assert.deepEqual(index.of("alpha"), none);
  assert.deepEqual(index.of("zeta"), none);
});

test("an edit that touches no shared name or port affects no other slot", () => {
  const index = new ConflictIndex();
  index.update("a", spec({ port: 8085, aliases: ["gpt"] }));
  index.update("b", spec({ aliases: ["other"] }));
  assert.deepEqual(index.update("a", spec({ port: 8085, aliases: ["gpt", "more"] })), []);
});

test("an alias loses to another holder, to a slot's name and to a ref", () => {
  const index = new ConflictIndex();
  index.update("a", spec({ aliases: ["gpt"] }));
  index.update("b", spec({ aliases: ["gpt", "coder", "qwen3:4b"] }));
  index.setRefs(new Set(["qwen3:4b"]));
  assert.deepEqual(index.update("coder", spec({})), ["b"]);
  assert.deepEqual(index.of("b").aliases, [
    { alias: "gpt", holder: "slot a" },
    { alias: "coder", holder: "slot coder" },
    { alias: "qwen3:4b", holder: "model qwen3:4b" },
  ]);
  assert.deepEqual(index.setRefs(new Set()), ["b"]);
  index.update("a", undefined);
  index.update("coder", undefined);
  assert.deepEqual(index.of("b"), none);
});
