import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { it } from "node:test";
import { conversationSchema, type Conversation } from "../../../src/api/management/chat-routes.ts";
import { ConversationStore } from "../../../src/store/state/conversations.ts";
import { tempDir } from "../../support/temp-dir.ts";

const conversation = (id: string, content: string): Conversation =>
  conversationSchema.parse({
    id,
    title: "t",
    model: "m",
    updated_at: "2026-01-01T00:00:00Z",
    parameters: { system: "", temperature: "", maxTokens: "" },
    messages: [{ role: "user", content }],
  });

it("an owner's conversations take no more than their bytes together, and a kept one can be kept again", async () => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path, 3000);
  await store.write("a", conversation("aaaaaaaa", "x".repeat(2000)));
  await assert.rejects(store.write("a", conversation("bbbbbbbb", "x".repeat(2000))), {
    code: "dispatch.payload_too_large",
  });
  await store.write("a", conversation("aaaaaaaa", "x".repeat(2200)));
  await store.write("b", conversation("bbbbbbbb", "x".repeat(2000)));
  await store.remove("a", "aaaaaaaa");
  await store.write("a", conversation("bbbbbbbb", "x".repeat(2000)));
});

it("the text of a deleted conversation goes before its place in the list", async () => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path);
  await store.write("a", conversation("aaaaaaaa", "private"));
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  const head = `${directory.path}/conversations/${owner}/aaaaaaaa.head.json`;
  fs.rmSync(head);
  // No file, and so not to be removed like one: the deletion ends in the middle.
  fs.mkdirSync(head);
  await assert.rejects(store.remove("a", "aaaaaaaa"));
  await assert.rejects(store.read("a", "aaaaaaaa"), { code: "system.not_found" });
});

it("conversations are read without a read on the thread of all requests", async (t) => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path);
  await store.write("a", conversation("aaaaaaaa", "x".repeat(3_000_000)));
  const blocked = t.mock.method(fs, "readFileSync", () => assert.fail("it is read synchronously"));
  syncBuiltinESMExports();
  try {
    assert.equal((await store.read("a", "aaaaaaaa")).messages[0]?.content.length, 3_000_000);
    assert.equal((await store.list("a")).length, 1);
  } finally {
    blocked.mock.restore();
    syncBuiltinESMExports();
  }
});
