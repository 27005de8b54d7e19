import assert from "node:assert/strict";
import { it } from "node:test";
import type { CatalogView } from "../../../src/api/management/views.ts";
import { firstChoices, stepOf } from "../../../web/dashboard/first-steps.ts";

const install = { first_run: true, has_models: false, has_ready_slot: false };
const here = { ...install, has_models: true };
const slot = (state: "offline" | "warming" | "idle", model: string | null) => ({ state, model });
const pull = (state: string) => ({ state });

for (const [name, known, expected] of [
  ["nothing is here", { install, slots: [slot("offline", null)], pulls: [] }, "choose"],
  ["a pull goes on", { install, slots: [], pulls: [pull("running")] }, "pull"],
  ["a pull has failed, and can be tried again", { install, slots: [], pulls: [pull("failed")] }, "pull"],
  ["a pull was cancelled", { install, slots: [], pulls: [pull("cancelled")] }, "choose"],
  ["a model is here, and no slot holds it", { install: here, slots: [slot("offline", null)], pulls: [] }, "hold"],
  ["a slot loads", { install: here, slots: [slot("warming", "m")], pulls: [pull("completed")] }, "load"],
  [
    "a slot is ready while another model is pulled",
    { install: here, slots: [slot("idle", "m")], pulls: [pull("running")] },
    "talk",
  ],
  [
    "no model is here, and a slot that runs another program is ready",
    { install, slots: [slot("idle", null)], pulls: [] },
    "choose",
  ],
] as const)
  it(`the next step is ${expected} where ${name}`, () => assert.equal(stepOf(known), expected));

const model = (id: string, gb: number, verdict: CatalogView["fit"]["verdict"] = "fits", can = "chat"): CatalogView => ({
  id,
  title: id,
  engine: "llama",
  size_bytes: gb * 1e9,
  capabilities: [can],
  license: "MIT",
  license_url: "https://example.com/license",
  must_accept: false,
  source: "hf://a/b/c.gguf",
  sha256: null,
  unverified: [],
  checked: null,
  note: null,
  last_benchmark: null,
  is_here: false,
  fit: { verdict, message: "", need_bytes: null, budget_bytes: null, inputs: [], check: "" },
});
const catalog = [
  model("small", 0.6),
  model("huge", 40, "does_not_fit"),
  model("middle", 2.5),
  model("large", 5),
  model("tight", 6, "fits_with"),
  model("vectors", 1, "fits", "embeddings"),
];

for (const [where, hasGpu, expected] of [
  ["with a GPU the largest that fits", true, ["large", "middle", "small"]],
  ["on a processor alone the largest that is quick", false, ["middle", "small", "large"]],
] as const)
  it(`the first choice is ${where}`, () =>
    assert.deepEqual(
      firstChoices(catalog, hasGpu).map(({ id }) => id),
      expected,
    ));

it("models that fit with other settings are offered after those that fit, and none that does not", () => {
  const some = catalog.filter(({ id }) => ["tight", "huge", "small"].includes(id));
  assert.deepEqual(
    firstChoices(some, true).map(({ id }) => id),
    ["small", "tight"],
  );
});
