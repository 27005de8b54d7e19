import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { stringify as yamlOf } from "yaml";
import { canonicalJson } from "../../../src/lib/canonical.ts";
import { differences, withChanges, type FieldChange } from "../../../src/store/edit/difference.ts";
import { beyondToml, edit } from "../../../src/store/edit/edit.ts";
import { valuesOf } from "../../../src/store/edit/place.ts";
import { tomlText } from "../../../src/store/edit/toml-edit.ts";
import { yamlText } from "../../../src/store/edit/yaml-text.ts";
import { fc, runs } from "../../support/fast-check.ts";

/** Keys of a person and of the resources; the latter are what TOML spells in another way. */
const ownKey = fc.oneof(
  fc.constantFrom("A", "my_key", "topK", "with space", "a.b", 'q"q', "", "ключ", "on", "1", "#", "-", "[x]", "a: b"),
  fc.string({ maxLength: 6 }).filter((key) => key !== "__proto__" && key.isWellFormed()),
);
const text = fc.oneof(
  fc.constantFrom("m", "qwen3:4b", "on", "null", "1e3", "a, b", "a # b", "a: b", "it's", '"', "x\ny"),
  fc.constantFrom(" pad ", "- a", "", "\\", "…"),
  fc.string({ unit: "grapheme", maxLength: 12 }).filter((each) => each.isWellFormed()),
);
const scalar = fc.oneof(text, fc.boolean(), fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }));
const free = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small", maxDepth: 3 },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(ownKey, tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
})).value;
/** The shape of a spec, as far as edits care: maps in maps, lists, a person's own keys below some. */
const spec = fc.record(
  {
    enabled: fc.boolean(),
    group: text,
    idleSeconds: fc.nat(),
    aliases: fc.array(text, { maxLength: 4 }),
    model: fc.record(
      { default: text, contextSize: fc.nat(), onRequest: fc.array(text, { maxLength: 3 }) },
      { requiredKeys: [], noNullPrototype: true },
    ),
    env: fc.dictionary(
      ownKey,
      fc.oneof(
        text,
        fc.record({ valueFrom: fc.record({ file: text }, { noNullPrototype: true }) }, { noNullPrototype: true }),
      ),
      { maxKeys: 3, noNullPrototype: true },
    ),
    mounts: fc.array(
      fc.record({ source: text, readOnly: fc.boolean() }, { requiredKeys: ["source"], noNullPrototype: true }),
      { maxLength: 3 },
    ),
    request: fc.record(
      {
        set: fc.dictionary(ownKey, free, { maxKeys: 3, noNullPrototype: true }),
        strip: fc.array(text, { maxLength: 2 }),
      },
      { requiredKeys: [], noNullPrototype: true },
    ),
    podTemplate: fc.dictionary(ownKey, free, { maxKeys: 2, noNullPrototype: true }),
  },
  { requiredKeys: [], noNullPrototype: true },
);
const notEmpty = spec.filter((each) => Object.keys(each).length > 0);

/** Comments on lines of their own, which every edit has to keep, and lines that end as on Windows. */
function decorated(plain: string, isWindows: boolean): string {
  const lines = plain.trimEnd().split("\n");
  const commented = ["# head", "", ...lines, "", "# tail"];
  return `${commented.join(isWindows ? "\r\n" : "\n")}${isWindows ? "\r\n" : "\n"}`;
}

function survives(file: string, before: string, changes: readonly FieldChange[]): void {
  const edited = edit(file, before, 0, changes);
  assert.ok(edited !== undefined, `refused:\n${before}\n${JSON.stringify(changes)}`);
  assert.equal(
    canonicalJson(valuesOf(file, edited)),
    canonicalJson([withChanges(valuesOf(file, before)?.[0], changes)]),
  );
  assert.match(edited, /^# head\r?\n/);
  assert.match(edited, /^# tail\r?$/m);
  if (changes.length === 0) assert.equal(edited, before);
}

describe("any edit", () => {
  it("of TOML has the wanted value", () => {
    fc.assert(
      fc.property(notEmpty, spec, fc.boolean(), (from, to, isWindows) => {
        survives("/c/slots/a.toml", decorated(tomlText(from), isWindows), differences(from, to));
      }),
      { includeErrorInReport: true },
    );
  });

  it("of YAML has the wanted value, in whatever style it is written", () => {
    const styles = fc.constantFrom({}, { indentSeq: false, indent: 4 }, { collectionStyle: "flow" } as const);
    fc.assert(
      fc.property(notEmpty, notEmpty, fc.boolean(), styles, (from, to, isWindows, style) => {
        survives("/c/slots/a.yaml", decorated(yamlOf(from, style), isWindows), differences(from, to));
      }),
      { numRuns: runs(60), includeErrorInReport: true },
    );
  });

  it("of one scalar changes a single line, whatever stands around it", () => {
    const name = fc.stringMatching(/^[a-z][a-z0-9.:/-]{0,20}$/);
    fc.assert(
      fc.property(spec, name, name, fc.constantFrom("toml", "yaml"), (around, old, next, format) => {
        const from = { ...around, model: { ...around.model, default: old } };
        const before = decorated(format === "toml" ? tomlText(from) : yamlText(from), false).split("\n");
        const after = edit(`/c/slots/a.${format}`, before.join("\n"), 0, [{ path: ["model", "default"], value: next }]);
        const changed = after?.split("\n").filter((line, index) => line !== before[index]);
        assert.equal(after?.split("\n").length, before.length);
        assert.ok((changed?.length ?? 2) <= 1);
      }),
    );
  });

  it("refuses values that TOML cannot hold", () => {
    assert.equal(beyondToml({ a: [{ b: 1 }] }), undefined);
    assert.deepEqual(beyondToml({ a: [{ b: null }] }), ["a", "0", "b"]);
  });
});
