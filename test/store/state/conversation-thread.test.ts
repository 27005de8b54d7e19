import assert from "node:assert/strict";
import { it } from "node:test";
import { ConversationThread } from "../../../src/store/state/conversation-thread.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("a deletion is done after the write that was requested before, so that no deleted conversation comes back", async () => {
  await using directory = await tempDir();
  await using thread = new ConversationThread(directory.path);
  const conversation = {
    id: "aaaaaaaa",
    title: "t",
    model: "m",
    updated_at: "2026-01-01T00:00:00Z",
    parameters: { system: "", temperature: "", maxTokens: "" },
    messages: [{ role: "user", content: "hi" }],
  };
  const written = thread.write("ann", "aaaaaaaa", Buffer.from(JSON.stringify(conversation)));
  const removed = thread.remove("ann", "aaaaaaaa");
  assert.equal((await written).id, "aaaaaaaa");
  await removed;
  assert.deepEqual(await thread.list("ann"), []);
  await assert.rejects(thread.read("ann", "aaaaaaaa"), /no conversation of yours/);
});

it("a conversation that is not here may be another gateway's, and is kept then", async () => {
  await using directory = await tempDir();
  const at = "2026-01-01T00:00:00Z";
  const parameters = { system: "", temperature: "", maxTokens: "" };
  const text = JSON.stringify({ id: "aaaaaaaa", title: "t", model: "m", updated_at: at, parameters, messages: [] });
  await using all = new ConversationThread(directory.path);
  await assert.rejects(all.write("ann", "aaaaaaaa", Buffer.from(text), at), /has been deleted meanwhile/);
  await using some = new ConversationThread(directory.path, { hasAll: false });
  assert.equal((await some.write("ann", "aaaaaaaa", Buffer.from(text), at)).id, "aaaaaaaa");
});

it("conversations are not counted where other gateways have some of the same owner", async () => {
  await using directory = await tempDir();
  await using all = new ConversationThread(directory.path);
  await using some = new ConversationThread(directory.path, { hasAll: false });
  assert.deepEqual([await all.count("ann"), await some.count("ann")], [0, undefined]);
});
