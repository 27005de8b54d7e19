import assert from "node:assert/strict";
import { it } from "node:test";
import { upstreamRules, upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { isWhole, providerBody } from "../../../web/dashboard/new-provider.ts";
import { isFor } from "../../../web/dashboard/use-model.ts";

const provider = { name: "acme", baseUrl: "https://api.example.com/v1", key: "none", keyAt: "", models: "" } as const;

for (const [what, more, expected] of [
  ["lists all of its models where none is named", {}, { discover: {} }],
  ["has the models that are named", { models: "a, b/c\nd" }, { models: [{ ref: "a" }, { ref: "b/c" }, { ref: "d" }] }],
  [
    "names the variable of its key",
    { key: "env", keyAt: "ACME_KEY" },
    { auth: { type: "bearer", valueFrom: { env: "ACME_KEY" } }, discover: {} },
  ],
  [
    "names the file of its key",
    { key: "file", keyAt: "/run/key" },
    { auth: { type: "bearer", valueFrom: { file: "/run/key" } }, discover: {} },
  ],
] as const)
  it(`a new provider ${what}, by the rules of the manifest`, () => {
    const body = providerBody({ ...provider, ...more });
    assert.deepEqual(body, { baseUrl: provider.baseUrl, ...expected });
    assert.deepEqual(upstreamRules(upstreamSpecSchema.parse(body)), []);
  });

for (const [what, more, expected] of [
  ["name and address are enough", {}, true],
  ["it needs a name", { name: "" }, false],
  ["it needs an address", { baseUrl: "" }, false],
  ["a key needs its place", { key: "env" }, false],
] as const)
  it(`of a new provider: ${what}`, () => assert.equal(isWhole({ ...provider, ...more }), expected));

for (const [slot, model, expected] of [
  [["chat", "completions"], ["chat"], true],
  [["embeddings"], ["embed"], true],
  [["transcription"], ["stt"], true],
  [["chat"], ["embed"], false],
  [["chat"], [], false],
] as const)
  it(`a slot for ${slot.join()} is ${expected ? "" : "not "}offered a model for ${model.join() || "nothing"}`, () =>
    assert.equal(isFor({ capabilities: slot }, { capabilities: model }), expected));
