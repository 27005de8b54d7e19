import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { KnownTexts } from "../../src/lib/known-texts.ts";

const find = (texts: KnownTexts, spelled: string): string | undefined => {
  const bytes = Buffer.from(`[${spelled}]`);
  return texts.find(bytes, 1, bytes.length - 1);
};

const keep = (texts: KnownTexts, spelled: string, text: string): void => {
  const bytes = Buffer.from(`[${spelled}]`);
  texts.keep(bytes, 1, bytes.length - 1, text);
  bytes.fill(0);
};

describe("KnownTexts", () => {
  it("gives the text of the same bytes alone", () => {
    const texts = new KnownTexts();
    keep(texts, '"mod\\u0065l"', "model");
    assert.equal(find(texts, '"mod\\u0065l"'), "model");
    assert.equal(find(texts, '"mod\\u0065m"'), undefined);
    assert.equal(find(texts, '"model"'), undefined);
  });

  it("never confuses two texts that share a place in the table", () => {
    const texts = new KnownTexts();
    for (let nth = 0; nth < 5000; nth += 1) keep(texts, `"name-${nth}"`, `name-${nth}`);
    let count = 0;
    for (let nth = 0; nth < 5000; nth += 1) {
      const found = find(texts, `"name-${nth}"`);
      if (found === undefined) continue;
      assert.equal(found, `name-${nth}`);
      count += 1;
    }
    assert.ok(count > 0 && count <= 64);
  });

  it("keeps no long text", () => {
    const texts = new KnownTexts();
    keep(texts, "x".repeat(65), "long");
    assert.equal(find(texts, "x".repeat(65)), undefined);
  });
});
