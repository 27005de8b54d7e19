import assert from "node:assert/strict";
import { it } from "node:test";
import { remarkOn, shownPieces } from "../../hack/run-greeting.ts";
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
  ["is cut after 80 pieces", Array.from({ length: 90 }, () => said("a")), [...Array<string>(80).fill("a"), " …"]],
  ["that ends within its thoughts is not an empty line", [thought("Hm")], ["(thinks first) "]],
] as const)
  it(`the first answer of a model ${what}`, async () =>
    assert.deepEqual(await Array.fromAsync(shownPieces(pieces(...of))), shown));

const message = "the model's file has no chat template";
const degraded = { conditions: [{ type: "Degraded", status: "True", message }] };
const healthy = { conditions: [{ type: "Degraded", status: "False", message }] };

for (const [what, answer, slot, isFirst, remark] of [
  ["the first model is said to have no other", "Hello", healthy, true, /all that the first model can say/],
  ["a degraded slot comes with its reason", "", degraded, false, /^the model's file has no chat template$/],
  ["a model without a word is not passed over", " \n", healthy, false, /said nothing: `bin\/berth slot logs primary`/],
] as const)
  it(`the first answer of ${what}`, () => assert.match(remarkOn(answer, slot, isFirst) ?? "", remark));

it("a good first answer needs no remark", () => assert.equal(remarkOn("Hello", healthy, false), undefined));
