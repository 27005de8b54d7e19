import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { withoutDocument } from "../../../src/store/edit/documents-edit.ts";

const file = "/c/slots/all.yaml";
const one = (name: string): string =>
  `# of ${name}\napiVersion: berth.dev/v1alpha1\nkind: Slot\nmetadata: {name: ${name}}\nspec: {enabled: false} # its own\n`;
const [a, b, c] = [one("a"), one("b"), one("c")] as const;

describe("a file without one of its documents", () => {
  it("keeps the others as they are, comments included", () => {
    const text = `${a}---\n${b}---\n${c}`;
    assert.equal(withoutDocument({ file, text, index: 0 }), `${b}---\n${c}`);
    assert.equal(withoutDocument({ file, text, index: 1 }), `${a}---\n${c}`);
    assert.equal(withoutDocument({ file, text, index: 2 }), `${a}---\n${b}`);
  });

  it("keeps the comment at the head of the file, and removes that of the document", () => {
    const head = "# The slots of the house.\n# Read CONTRIBUTING first.\n\n";
    assert.equal(withoutDocument({ file, text: `${head}${a}---\n${b}`, index: 0 }), `${head}${b}`);
    assert.equal(withoutDocument({ file, text: `${head}---\n${a}---\n${b}`, index: 0 }), `${head}---\n${b}`);
  });

  it("counts no empty document, and takes marks, ends and directives as they come", () => {
    const text = `---\n---\n${a}...\n---\n# nothing\n---\n${b}`;
    assert.equal(withoutDocument({ file, text, index: 1 }), `---\n---\n${a}...\n---\n# nothing\n`);
    const blocks = `---\n${a}--- # b\n${b}`;
    assert.equal(withoutDocument({ file, text: blocks, index: 1 }), `---\n${a}`);
    const quoted = `${a}---\n${b.replace("enabled: false", 'group: "x --- y"')}`;
    assert.equal(withoutDocument({ file, text: quoted, index: 0 }), quoted.slice(quoted.indexOf("# of b")));
  });

  it("is not made where a text does not parse, or another document has no name of its own", () => {
    assert.equal(withoutDocument({ file, text: `${a}---\n{`, index: 0 }), undefined);
    assert.equal(withoutDocument({ file, text: `${a}---\nenabled: false\n`, index: 0 }), undefined);
  });
});
