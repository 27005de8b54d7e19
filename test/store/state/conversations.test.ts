import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { it } from "node:test";
import { conversationSchema, type Conversation } from "../../../src/api/management/chat-routes.ts";
import { bootId } from "../../../src/lib/boot-id.ts";
import { ConversationStore } from "../../../src/store/state/conversations.ts";
import { acquireLock } from "../../../src/store/state/lock.ts";
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

it("an owner's conversations stay within their common bytes, and a stored one can be stored again", async () => {
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

it("writes at the same time pass neither bound of an owner: bytes, and the number of conversations", async () => {
  await using directory = await tempDir();
  const keep = async (store: ConversationStore, ids: readonly string[], text: string): Promise<unknown[]> => {
    const kept = await Promise.allSettled(ids.map(async (id) => await store.write("a", conversation(id, text))));
    return kept.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  };
  const refused = await keep(new ConversationStore(directory.path, 3000), ["aaaaaaaa", "bbbbbbbb"], "x".repeat(2000));
  assert.equal(refused.length, 1);
  assert.match(String(refused[0]), /would take more than/);
  const store = new ConversationStore(directory.path);
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  for (let count = 1; count < 999; count += 1)
    for (const end of ["json", "head.json"])
      fs.writeFileSync(`${directory.path}/conversations/${owner}/c${String(count).padStart(7, "0")}.${end}`, "");
  const late = await keep(store, ["dddddddd", "eeeeeeee", "ffffffff"], "x");
  assert.equal(late.length, 2);
  for (const each of late) assert.match(String(each), /you have 1000 conversations/);
});

it("writes of several gateways at the same time do not pass the bound together", async () => {
  await using directory = await tempDir();
  const stores = Array.from({ length: 4 }, () => new ConversationStore(directory.path, 3000));
  for (let round = 0; round < 20; round += 1) {
    await Promise.allSettled(
      stores.map((store, nth) => store.write("a", conversation(`aaaaaaa${nth}`, "x".repeat(2000)))),
    );
    const kept = await new ConversationStore(directory.path).list("a");
    assert.ok(kept.length <= 1, `${kept.length} conversations were kept`);
    for (const { id } of kept) await new ConversationStore(directory.path).remove("a", id);
  }
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

it("of writes of several gateways that continue the same text, one is kept and the others are refused", async () => {
  await using directory = await tempDir();
  const stores = Array.from({ length: 4 }, () => new ConversationStore(directory.path));
  let base = "none";
  for (let round = 0; round < 20; round += 1) {
    const writes = stores.map(async (store, nth) => {
      const updated_at = `2026-01-01T00:${10 + round}:0${nth}Z`;
      await store.write("a", { ...conversation("aaaaaaaa", "x".repeat(10_000)), updated_at }, base);
      return updated_at;
    });
    const ends = await Promise.allSettled(writes);
    const kept = ends.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    assert.equal(kept.length, 1, `round ${round}`);
    for (const each of ends) if (each.status === "rejected") assert.equal(each.reason.code, "config.changed");
    [base = ""] = kept;
    assert.deepEqual(
      (await new ConversationStore(directory.path).list("a")).map((head) => head.updated_at),
      kept,
    );
  }
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  assert.equal(fs.readdirSync(`${directory.path}/conversations/${owner}`).length, 2, "no lock stays");
});

it("a conversation that another gateway is writing is neither written nor deleted, unless that one has crashed", async () => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path);
  await store.write("a", conversation("aaaaaaaa", "one"));
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  const path = `${directory.path}/conversations/${owner}/.aaaaaaaa.lock`;
  const other = new ConversationStore(directory.path);
  {
    await using _lock = await acquireLock(path);
    assert.equal(await store.count("a"), 1);
    await Promise.all([
      assert.rejects(store.write("a", conversation("aaaaaaaa", "two")), { code: "system.overloaded", status: 503 }),
      assert.rejects(other.remove("a", "aaaaaaaa"), { code: "system.overloaded", status: 503 }),
    ]);
  }
  assert.equal((await store.read("a", "aaaaaaaa")).messages[0]?.content, "one");
  // The lock of a gateway that was killed: its process number is another process's by now.
  fs.writeFileSync(path, JSON.stringify({ pid: process.pid, startTime: "1", bootId: bootId(), beatMs: 1000 }));
  await store.write("a", conversation("aaaaaaaa", "two"));
  assert.equal(fs.existsSync(path), false);
  await store.remove("a", "aaaaaaaa");
  assert.equal(await store.count("a"), 0);
});

it("a kept text that cannot be read is not replaced by one that continues none", async () => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path);
  await store.write("a", conversation("aaaaaaaa", "kept"));
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  const file = `${directory.path}/conversations/${owner}/aaaaaaaa.json`;
  const size = 128 * 1024 ** 2 + 1;
  fs.truncateSync(file, size);
  await assert.rejects(store.write("a", conversation("aaaaaaaa", "other"), "none"), /larger than 128 MiB/);
  assert.equal(fs.statSync(file).size, size);
  fs.writeFileSync(file, "{");
  await store.write("a", conversation("aaaaaaaa", "other"), "none");
  assert.equal((await store.read("a", "aaaaaaaa")).messages[0]?.content, "other");
});

it("conversations whose directory cannot be read are not counted as none", async () => {
  await using directory = await tempDir();
  const store = new ConversationStore(directory.path);
  assert.equal(await store.count("a"), 0);
  await store.write("a", conversation("aaaaaaaa", "kept"));
  assert.equal(await store.count("a"), 1);
  const [owner = ""] = fs.readdirSync(`${directory.path}/conversations`);
  fs.rmSync(`${directory.path}/conversations/${owner}`, { recursive: true });
  fs.writeFileSync(`${directory.path}/conversations/${owner}`, "");
  assert.equal(await store.count("a"), undefined);
  await assert.rejects(store.list("a"), { code: "ENOTDIR" });
});
