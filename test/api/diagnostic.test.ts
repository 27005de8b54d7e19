import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { diagnosticLine } from "../../src/api/diagnostic.ts";

describe("diagnosticLine", () => {
  const file = "slots/a.toml";
  for (const [found, line] of [
    [
      { file, line: 3, column: 9, path: ["model", "default"], message: "is required" },
      "slots/a.toml:3:9: model.default: is required",
    ],
    [{ file, line: 3, message: "is cut off" }, "slots/a.toml:3: is cut off"],
    [{ file, path: [], message: "may not be read" }, "slots/a.toml: may not be read"],
    [{ file, path: ["env", 0], message: "is odd" }, "slots/a.toml: env.0: is odd"],
  ] as const) {
    it(`says ${line}`, () => assert.equal(diagnosticLine(found), line));
  }
});
