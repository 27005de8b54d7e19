import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { conversationSchema, type Conversation } from "../../../src/api/management/chat-routes.ts";
import { bootId } from "../../../src/lib/boot-id.ts";
import { ConversationStore } from "../../../src/gateway/conversations/store.ts";
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
const [one, two] = ["aaaaaaaa", "bbbbbbbb"] as const;
const long = "x".repeat(2000);

/** A state directory, and stores of it. */
async function site() {
  const { path, ...directory } = await tempDir();
  return {
    open: (maxBytes?: number) => new ConversationStore(path, maxBytes),
    /** A file of the only owner. */
    file: (name = ""): string => {
      const [owner = ""] = readdirSync(join(path, "conversations"));
      return join(path, "conversations", owner, name);
    },
    ...directory,
  };
}

it("an owner's conversations stay within their common bytes, and a stored one can be stored again", async () => {
  await using at = await site();
  const store = at.open(3000);
  await store.write("a", conversation(one, long));
  await assert.rejects(store.write("a", conversation(two, long)), { code: "dispatch.payload_too_large" });
  await store.write("a", conversation(one, `${long}more`));
  await store.write("b", conversation(two, long));
  await store.remove("a", one);
  await store.write("a", conversation(two, long));
});

it("writes at the same time pass neither bound of an owner: bytes, and the number of conversations", async () => {
  await using at = await site();
  const keep = async (store: ConversationStore, ids: readonly string[], text: string): Promise<unknown[]> => {
    const kept = await Promise.allSettled(ids.map(async (id) => await store.write("a", conversation(id, text))));
    return kept.flatMap((each) => (each.status === "rejected" ? [each.reason] : []));
  };
  const refused = await keep(at.open(3000), [one, two], long);
  assert.equal(refused.length, 1);
  assert.match(String(refused[0]), /would take more than/);
  for (let count = 1; count < 999; count += 1)
    for (const end of ["json", "head.json"]) writeFileSync(at.file(`c${String(count).padStart(7, "0")}.${end}`), "");
  const late = await keep(at.open(), ["dddddddd", "eeeeeeee", "ffffffff"], "x");
  assert.equal(late.length, 2);
  for (const each of late) assert.match(String(each), /you have 1000 conversations/);
});

it("the text of a deleted conversation goes before its place in the list", async () => {
  await using at = await site();
  const store = at.open();
  await store.write("a", conversation(one, "private"));
  rmSync(at.file(`${one}.head.json`));
  // No file, and so not to be removed like one: the deletion ends in the middle.
  mkdirSync(at.file(`${one}.head.json`));
  await assert.rejects(store.remove("a", one));
  await assert.rejects(store.read("a", one), { code: "system.not_found" });
});

it("of writes of several gateways that continue the same text, one is kept and the others are refused", async () => {
  await using at = await site();
  const stores = Array.from({ length: 4 }, () => at.open());
  let base = "none";
  for (let round = 0; round < 5; round += 1) {
    const writes = stores.map(async (store, nth) => {
      const updated_at = `2026-01-01T00:${10 + round}:0${nth}Z`;
      await store.write("a", { ...conversation(one, long), updated_at }, base);
      return updated_at;
    });
    const ends = await Promise.allSettled(writes);
    const kept = ends.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    assert.equal(kept.length, 1, `round ${round}`);
    for (const each of ends) if (each.status === "rejected") assert.equal(each.reason.code, "config.changed");
    [base = ""] = kept;
    const [head] = await at.open().list("a");
    assert.equal(head?.updated_at, base);
  }
  assert.equal(readdirSync(at.file()).length, 2, "no lock stays");
});

it("a conversation that another gateway is writing is neither written nor deleted, unless that one has crashed", async () => {
  await using at = await site();
  const store = at.open();
  await store.write("a", conversation(one, "one"));
  const lock = at.file(`.${one}.lock`);
  {
    await using _lock = await acquireLock(lock);
    assert.equal(await store.count("a"), 1);
    const busy = { code: "system.overloaded", status: 503 };
    await Promise.all([
      assert.rejects(store.write("a", conversation(one, "two")), busy),
      assert.rejects(at.open().remove("a", one), busy),
    ]);
  }
  assert.equal((await store.read("a", one)).messages[0]?.content, "one");
  // The lock of a gateway that was killed: its process number is another process's by now.
  writeFileSync(lock, JSON.stringify({ pid: process.pid, startTime: "1", bootId: bootId(), beatMs: 1000 }));
  await store.write("a", conversation(one, "two"));
  assert.equal(existsSync(lock), false);
  await store.remove("a", one);
  assert.equal(await store.count("a"), 0);
});

it("a kept text that cannot be read is not replaced by one that continues none", async () => {
  await using at = await site();
  const store = at.open();
  await store.write("a", conversation(one, "kept"));
  const file = at.file(`${one}.json`);
  const size = 128 * 1024 ** 2 + 1;
  truncateSync(file, size);
  await assert.rejects(store.write("a", conversation(one, "other"), "none"), /larger than 128 MiB/);
  assert.equal(statSync(file).size, size);
  writeFileSync(file, "{");
  await store.write("a", conversation(one, "other"), "none");
  assert.equal((await store.read("a", one)).messages[0]?.content, "other");
});

it("conversations whose directory cannot be read are not counted as none", async () => {
  await using at = await site();
  const store = at.open();
  assert.equal(await store.count("a"), 0);
  await store.write("a", conversation(one, "kept"));
  assert.equal(await store.count("a"), 1);
  const owner = at.file();
  rmSync(owner, { recursive: true });
  writeFileSync(owner.replace(/\/$/, ""), "");
  assert.equal(await store.count("a"), undefined);
  await assert.rejects(store.list("a"), { code: "ENOTDIR" });
});

it("a list says which conversations are pinned, and a conversation keeps its branches", async () => {
  await using at = await site();
  const store = at.open();
  const branched = conversationSchema.parse({
    ...conversation(one, "first"),
    pinned: true,
    shown: 1,
    messages: [
      { role: "user", content: "first" },
      { role: "user", content: "in other words", after: -1 },
    ],
  });
  await store.write("a", branched);
  await store.write("a", { ...conversation(two, "second"), pinned: false });
  const heads = await store.list("a");
  assert.deepEqual(
    new Map(heads.map(({ id, pinned }) => [id, pinned])),
    new Map([
      [one, true],
      [two, undefined],
    ]),
  );
  assert.deepEqual(await store.read("a", one), branched);
});
