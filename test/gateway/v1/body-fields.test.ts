import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PartNames } from "../../../src/gateway/media/audio/transcription-fields.ts";
import { applyRules } from "../../../src/gateway/v1/body-fields.ts";

describe("names that Go's parser takes for others", () => {
  it("are removed and forced by a slot's rules, too", () => {
    const body = Buffer.from('{"toolſ":[],"ſeed":1,"a":2}');
    const made = applyRules(body, { set: { "seed!": 7 }, strip: ["tools"] });
    assert.deepEqual(JSON.parse(made.toString()), { a: 2, seed: 7 });
  });

  it("are refused in a form", () => {
    assert.throws(() => new PartNames().add("ſtream"), /stream: must be spelled so/);
  });
});
