import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Mask, StreamMask } from "../../../src/gateway/providers/mask.ts";
import { fc } from "../../support/fast-check.ts";

const key = "sk-proj-0123456789/abc";

describe("mask", () => {
  const cases: readonly (readonly [what: string, text: string, masked: string])[] = [
    ["as it is", `bad key ${key}!`, `bad key ${"*".repeat(key.length)}!`],
    ["twice", `${key}${key}`, "*".repeat(2 * key.length)],
    ["with escaped slashes", String.raw`"sk-proj-0123456789\/abc"`, `"${"*".repeat(key.length + 1)}"`],
    ["in an address", `?key=${encodeURIComponent(key)}&a=b`, `?key=${"*".repeat(key.length + 2)}&a=b`],
    ["not at all", "sk-proj-0123456789/ab", "sk-proj-0123456789/ab"],
  ];
  for (const [what, text, masked] of cases) {
    it(`hides a key that appears ${what}`, () => assert.equal(new Mask(key, "errors").text(text), masked));
  }

  it("hides a key with quotes in JSON", () => {
    const odd = 'a"b\\c-0123456789';
    assert.equal(new Mask(odd, "errors").text(JSON.stringify(odd)).includes("b"), false);
  });

  it("does not mask placeholders that people write instead of a key", () => {
    assert.equal(new Mask("none", "answers").text("none of it"), "none of it");
    assert.equal(new Mask("lm-studio", "answers").text("lm-studio"), "lm-studio");
    assert.equal(new Mask("abc", "errors").text("abc"), "abc");
    assert.equal(new Mask(undefined, "errors").text(key), key);
  });

  it("does not change the given buffer", () => {
    const bytes = Buffer.from(key);
    assert.notEqual(new Mask(key, "errors").bytes(bytes), bytes);
    assert.equal(bytes.toString(), key);
    const plain = Buffer.from("plain");
    assert.equal(new Mask(key, "errors").bytes(plain), plain);
  });
});

describe("stream mask", () => {
  it("holds back no more than what may be a key", () => {
    const stream = new StreamMask(new Mask(key, "answers"));
    assert.equal(stream.push(Buffer.from("data: hello\n\n")).toString(), "data: hello\n\n");
    assert.equal(stream.push(Buffer.from("a sk-p")).toString(), "a ");
    assert.equal(stream.push(Buffer.from("ear")).toString(), "sk-pear");
    assert.equal(stream.push(Buffer.from("sk-")).toString(), "");
    assert.equal(stream.end()?.toString(), "sk-");
    assert.equal(stream.end(), undefined);
  });

  it("hides the key however the bytes are cut, and changes nothing else", () => {
    const pieces = fc.array(fc.oneof(fc.constant(key), fc.constant("sk-proj-01"), fc.string({ maxLength: 8 })));
    fc.assert(
      fc.property(pieces, fc.array(fc.integer({ min: 1, max: 30 })), (texts, cuts) => {
        const whole = Buffer.from(texts.join(""));
        const mask = new Mask(key, "answers");
        const stream = new StreamMask(mask);
        const sent: Buffer[] = [];
        let at = 0;
        for (let turn = 0; at < whole.length; turn++) {
          const end = at + (cuts[turn] ?? 7);
          sent.push(stream.push(whole.subarray(at, end)));
          at = end;
        }
        sent.push(stream.end() ?? Buffer.alloc(0));
        assert.equal(Buffer.concat(sent).toString("latin1"), mask.bytes(whole).toString("latin1"));
        assert.equal(Buffer.concat(sent).includes(key), false);
      }),
    );
  });
});
