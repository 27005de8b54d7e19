import assert from "node:assert/strict";
import { it } from "node:test";
import { shownPieces } from "../../hack/run-greeting.ts";
import type { Piece } from "../../src/cli/chat.ts";

async function* pieces(...texts: readonly Piece[]): AsyncIterable<Piece> {
  yield* texts;
}

const thought = (text: string): Piece => ({ text, isThought: true });
const said = (text: string): Piece => ({ text, isThought: false });

for (const [what, of, shown] of [
  ["is shown as it comes", [said("A "), said("bowline.")], ["A ", "bowline."]],
  [
    "names thoughts once",
    [thought("The "), thought("user …"), said("A "), said("knot.")],
    ["(thinks first) ", "A ", "knot."],
  ],
  ["that ends within its thoughts is not an empty line", [thought("Hm")], ["(thinks first) "]],
] as const)
  it(`the first answer of a model ${what}`, async () =>
    assert.deepEqual(await Array.fromAsync(shownPieces(pieces(...of))), shown));
