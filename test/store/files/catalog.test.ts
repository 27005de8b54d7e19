import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { findCatalog } from "../../../src/program/shipped-catalog.ts";
import { readCatalog } from "../../../src/store/files/catalog.ts";
import { tempDir } from "../../support/temp-dir.ts";

describe("the catalogue that is shipped", async () => {
  const entries = await findCatalog();

  it("has a model for every kind of work, and the three image models of the specification", () => {
    const capabilities = new Set(entries.flatMap(({ spec }) => spec.capabilities ?? []));
    for (const capability of ["chat", "embed", "rerank", "stt", "tts", "image"] as const)
      assert.ok(capabilities.has(capability), capability);
    const images = entries.filter(({ catalog }) => catalog.engine === "image").map(({ metadata }) => metadata.name);
    assert.deepEqual(images, ["sdxl-turbo", "sd-1.5-pruned-emaonly", "flux-schnell"]);
  });

  it("has no unchecked checksum and no unchecked exact size, and says which fields are unchecked", () => {
    for (const { metadata, spec, catalog } of entries) {
      assert.equal(spec.sha256, undefined, metadata.name);
      assert.equal(spec.sizeBytes, undefined, metadata.name);
      // No file was fetched: either nobody has looked, or the publisher's own page of that repository lists the file.
      const isListed = catalog.checked?.fields.includes("source") === true;
      assert.equal(catalog.unverified.includes("source"), !isListed, metadata.name);
      const [owner, repository] = (spec.source ?? "").replace("hf://", "").split("/");
      if (isListed) assert.ok(catalog.checked?.page.startsWith(`https://huggingface.co/${owner}/${repository}/`));
    }
  });

  it("has to be accepted where its licence forbids commercial use", () => {
    for (const { metadata, spec, catalog } of entries) {
      if (/non-commercial/i.test(spec.license ?? "")) assert.ok(catalog.mustAccept, metadata.name);
    }
  });
});

describe("a catalogue that is wrong", () => {
  const document = (spec: string, more = ""): string =>
    `apiVersion: berth.dev/v1alpha1\nkind: Model\nmetadata: { name: a }\nspec: { ${spec} }\ncatalog: { title: A, engine: llama, aboutBytes: 1, mustAccept: false, unverified: [] ${more} }\n`;
  const whole =
    "source: 'hf://a/b/c.gguf', license: MIT, licenseUrl: 'https://a.test/', engines: [llama], capabilities: [chat]";

  for (const [what, text, expected] of [
    ["an unknown field", document(whole, ", colour: red"), /a\.yaml: catalog\.colour: /],
    [
      "no licence",
      document("source: 'hf://a/b/c.gguf', engines: [llama], capabilities: [chat]"),
      /a\.yaml: spec\.license: is missing/,
    ],
    [
      "no source",
      document(whole.replace("source: 'hf://a/b/c.gguf', ", "")),
      /a\.yaml: spec\.source: a model needs source or files/,
    ],
    ["the same ref twice", `${document(whole)}---\n${document(whole)}`, /a\.yaml: a is there twice/],
  ] as const) {
    it(`is refused, with the place: ${what}`, async () => {
      await using directory = await tempDir();
      await writeFile(join(directory.path, "a.yaml"), text);
      await assert.rejects(readCatalog(directory.path), { message: expected });
    });
  }
});
