import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { ConversationThread } from "../../../src/gateway/conversations/thread.ts";
import { tempDir } from "../../support/temp-dir.ts";

const id = "aaaaaaaa";
const at = "2026-01-01T00:00:00Z";
const parameters = { system: "", temperature: "", maxTokens: "" };
const text = Buffer.from(JSON.stringify({ id, title: "t", model: "m", updated_at: at, parameters, messages: [] }));

it("a deletion is done after the write that was requested before, so that no deleted conversation comes back", async () => {
  await using directory = await tempDir();
  await using thread = new ConversationThread(directory.path);
  const written = thread.write("ann", id, text);
  const removed = thread.remove("ann", id);
  assert.equal((await written).id, id);
  await removed;
  assert.deepEqual(await thread.list("ann"), []);
  await assert.rejects(thread.read("ann", id), /no conversation of yours/);
});

it("where other gateways have conversations of the same owner, a missing one is kept, and none are counted", async () => {
  await using directory = await tempDir();
  await using all = new ConversationThread(directory.path);
  await using some = new ConversationThread(directory.path, { hasAll: false });
  assert.deepEqual([await all.count("ann"), await some.count("ann")], [0, undefined]);
  await assert.rejects(all.write("ann", id, text, at), /has been deleted meanwhile/);
  assert.equal((await some.write("ann", id, text, at)).id, id);
});

it("an error of the file system comes from the thread with its code and its path", async () => {
  await using directory = await tempDir();
  const path = join(directory.path, "conversations");
  await writeFile(path, "no directory");
  await using thread = new ConversationThread(directory.path);
  await assert.rejects(thread.write("ann", id, text), (error) => {
    assert.ok(error instanceof Error && "code" in error && "path" in error);
    assert.match(String(error.code), /^E(EXIST|NOTDIR)$/);
    assert.ok(String(error.path).startsWith(path));
    return true;
  });
});
