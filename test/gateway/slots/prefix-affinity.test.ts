import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { prefixHashes } from "../../../src/gateway/slots/prefix-affinity.ts";

/** The value stands within a body, as requests have it. */
function hashesOf(value: unknown, { spaces = 0, tail = ',"stream":true}' } = {}): readonly number[] {
  const text = JSON.stringify(value, undefined, spaces);
  const head = '{"model":"primary","messages":';
  return prefixHashes({ body: Buffer.from(head + text + tail), start: head.length });
}

const user = (content: unknown): object => ({ role: "user", content });
const assistant = (content: string): object => ({ role: "assistant", content });
const last = (hashes: readonly number[]): number => hashes.at(-1) ?? assert.fail("no hash");

describe("hashes of a conversation", () => {
  const call = { id: "1", type: "function", function: { name: "look", arguments: '{"at":"[1]"}' } };
  // Its keys in another order than those of a client.
  const looking = { content: null, role: "assistant", tool_calls: [call] };
  const result = { tool_call_id: "1", content: "a cat", role: "tool" };
  const long = Array.from({ length: 400 }, (_, turn) => user(`turn ${turn}`));
  const conversations: readonly (readonly [what: string, ...turns: readonly object[][]])[] = [
    ["texts", [user("hello")], [assistant("good day"), user("and you?")], [assistant("well"), user("so am I")]],
    [
      "JSON, quotes or backslashes",
      [user('say {"role":"user"}, [ and ] to "role" \\')],
      [assistant('}"]'), user("ok")],
    ],
    ["calls of tools", [user([{ type: "text", text: "what is it?" }])], [looking, result], [assistant("a cat")]],
    ["hundreds of messages", long, [assistant("yes"), user("go on")]],
  ];
  for (const [what, ...turns] of conversations)
    it(`include the hash of each earlier turn among those of a later turn, whatever the white space: ${what}`, () => {
      for (const spaces of [0, 2]) {
        const hashes = turns.map((_, at) => hashesOf(turns.slice(0, at + 1).flat(), { spaces }));
        for (const [at, later] of hashes.entries())
          for (const earlier of hashes.slice(0, at)) assert.ok(later.includes(last(earlier)), `${spaces} spaces`);
        assert.ok(hashes.every(({ length }) => length <= 65));
      }
    });

  it("differ for conversations with a common beginning, and depend on the messages alone", () => {
    const system = { role: "system", content: "You are a helper. ".repeat(50) };
    const [one, other] = [hashesOf([system, user("red")]), hashesOf([system, user("blue")])];
    assert.ok(!other.includes(last(one)));
    assert.deepEqual(hashesOf([system, user("red")], { tail: ',"seed":7,"role":"x"}' }), one);
    assert.deepEqual(hashesOf([]), []);
  });
});

describe("hashes of a text", () => {
  it("of a longer conversation include all hashes of the shorter conversation, and are few", () => {
    for (const length of [64, 100, 1000, 5000, 100_000]) {
      const text = Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * 7) % 26))).join("");
      assert.ok(hashesOf(`${text} and so on`).includes(last(hashesOf(text))), `${length} bytes`);
    }
    assert.ok(hashesOf("x".repeat(1_000_000)).length < 300);
    assert.deepEqual(hashesOf("short"), [], "too short for a cache");
  });
});
