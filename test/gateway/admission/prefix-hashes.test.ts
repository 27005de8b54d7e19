import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { prefixHashes } from "../../../src/gateway/admission/prefix-hashes.ts";

/** The value stands within a body, as requests have it. */
function hashesOf(value: unknown, { spaces = 0, tail = ',"stream":true}' } = {}): readonly number[] {
  const text = JSON.stringify(value, undefined, spaces);
  const head = '{"model":"primary","messages":';
  return prefixHashes({ body: Buffer.from(head + text + tail), start: head.length });
}

const user = (content: string): object => ({ role: "user", content });
const assistant = (content: string): object => ({ role: "assistant", content });
const last = (hashes: readonly number[]): number => hashes.at(-1) ?? assert.fail("no hash");

describe("hashes of a conversation", () => {
  it("include the hash of an earlier turn among those of a later turn", () => {
    const first = [user("hello")];
    const second = [...first, assistant("good day"), user("how are you?")];
    const third = [...second, assistant("well"), user("so am I")];
    assert.ok(hashesOf(second).includes(last(hashesOf(first))));
    assert.ok(hashesOf(third).includes(last(hashesOf(second))));
    assert.ok(hashesOf(third).includes(last(hashesOf(first))));
  });

  it("are equal whatever white space the request has", () => {
    const first = [user("hello")];
    const second = [...first, assistant("good day"), user("how are you?")];
    for (const spaces of [0, 2])
      assert.ok(hashesOf(second, { spaces }).includes(last(hashesOf(first, { spaces }))), `${spaces} spaces`);
  });

  it("differ for conversations with a common beginning", () => {
    const system = { role: "system", content: "You are a helper. ".repeat(50) };
    const [one, other] = [hashesOf([system, user("red")]), hashesOf([system, user("blue")])];
    assert.notEqual(last(one), last(other));
    assert.ok(!other.includes(last(one)));
  });

  it("depend on the messages alone", () => {
    assert.deepEqual(hashesOf([user("hello")]), hashesOf([user("hello")], { tail: ',"seed":7,"role":"x"}' }));
  });

  it("are right for messages that hold JSON, quotes or backslashes", () => {
    const first = [user('say {"role":"user"}, [ and ] to me: "role" \\')];
    const second = [...first, assistant('}"]'), user("thanks")];
    assert.ok(hashesOf(second).includes(last(hashesOf(first))));
  });

  it("cover the last messages of a long conversation, which include the whole turn before", () => {
    const long = Array.from({ length: 400 }, (_, turn) => user(`turn ${turn}`));
    const hashes = hashesOf([...long, assistant("yes"), user("go on")]);
    assert.ok(hashes.includes(last(hashesOf(long))));
    assert.ok(hashes.length <= 65);
  });

  it("match an earlier turn where the answer has its keys in another order, or is a tool's", () => {
    const first = [{ role: "user", content: [{ type: "text", text: "what is this?" }] }];
    const call = { id: "1", type: "function", function: { name: "look", arguments: '{"at":"[1]"}' } };
    const answer = { content: null, role: "assistant", tool_calls: [call] };
    const second = [...first, answer, { tool_call_id: "1", content: "a cat", role: "tool" }];
    assert.ok(hashesOf(second).includes(last(hashesOf(first))));
    assert.ok(hashesOf([...second, assistant("a cat")]).includes(last(hashesOf(second))));
  });

  it("are none for an empty list", () => {
    assert.deepEqual(hashesOf([]), []);
  });
});

describe("hashes of a text", () => {
  it("of a longer conversation include all hashes of the shorter conversation", () => {
    for (const length of [64, 100, 1000, 5000, 100_000]) {
      const text = Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * 7) % 26))).join("");
      assert.ok(hashesOf(`${text} and so on`).includes(last(hashesOf(text))), `${length} bytes`);
    }
  });

  it("are few, however long the text is", () => {
    assert.ok(hashesOf("x".repeat(1_000_000)).length < 300);
  });

  it("are none for a text that is too short for a cache", () => {
    assert.deepEqual(hashesOf("short"), []);
  });
});
