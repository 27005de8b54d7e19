import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { withSuggestions } from "../../../src/engines/suggestion.ts";
import { findCatalog } from "../../../src/program/shipped-catalog.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { pcFacts } from "../../hardware/tree.ts";
import { modelRecord } from "../../support/gateway.ts";
import { writeShape } from "../../support/shaped-model.ts";
import { shapes } from "../../support/shapes.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { rowsOf, site, type Json, type Site } from "./fixture.ts";

const gib = 1024 ** 3;

describe("on a machine with 16 GiB and no GPU", () => {
  const stack = new AsyncDisposableStack();
  let at: Site;
  before(async () => {
    const { path } = stack.use(await tempDir());
    const model = join(path, "dense.gguf");
    await writeShape(model, shapes.dense);
    const dense = { ...modelRecord("dense"), path: model, files: [model], fingerprint: "1:1" };
    const declared = { ...modelRecord("declared"), memoryBytes: 20 * gib, state: "missing" } as const;
    at = stack.use(
      await site({
        registry: { models: [dense, declared] },
        slots: { writer: { spec: { engine: "llama", model: { default: "small", contextSize: 2_000_000 } } } },
        gateway: { catalog: findCatalog },
      }),
    );
    const unknown = { verdict: "unknown", message: "no operator has probed this machine yet" };
    const first = catalogRow(await at.got("/api/models/catalog"), "qwen3-0.6b");
    assert.partialDeepStrictEqual(first?.["fit"], unknown);
    const { hardware } = stack.use(await sharedSets(at.stateDir));
    const memory = { ...pcFacts.memory, total_bytes: 16 * gib, usable_bytes: 16 * gib };
    const facts: HardwareFacts = { ...pcFacts, memory };
    await hardware.publish({ schema: 1, hardware: withSuggestions(facts) });
    await until("the gateway has seen it", async () => (await fetch(`${at.url}/api/hardware`)).ok);
  });
  after(() => stack[Symbol.asyncDispose]());

  const catalogRow = (answer: Json, id: string): Json | undefined => rowsOf(answer).find((row) => row["id"] === id);
  const put = (model: object, more: object = {}) =>
    at.refused("PUT", "/api/slots/coder", { model: { default: "dense", ...model }, ...more });

  it("a slot whose model cannot fit is refused with the sum and what would fit, written or swapped", async () => {
    const { is, message, details } = await put({ contextSize: 2_000_000 });
    assert.equal(is, "409 config.fit");
    assert.match(
      message,
      /^dense needs 2\d\.\d GiB \(weights 204 MiB, context 22\.9 GiB, .*\) on host, which has 16\.0 GiB \(the machine's memory\); it fits with context_size 1048576$/,
    );
    assert.equal(details?.["budget_bytes"], 16 * gib);
    assert.equal((await at.send("GET", "/api/slots/coder")).status, 404, "nothing was written");
    assert.equal((await at.refused("POST", "/api/slots/writer/swap", { model: "dense" })).is, "409 config.fit");
  });

  it("a slot is refused by what its manifest reserves, and by what its model declares where no header tells", async () => {
    const host = "on host, which has 16.0 GiB (the machine's memory)";
    const lower = "lower resources.memoryBytes of the slot to what it needs";
    const smaller = "a smaller model or quantisation may fit";
    const reserved = { replicas: 3, resources: { memoryBytes: 6 * gib } };
    for (const [model, more, message, ...path] of [
      [{}, reserved, `coder needs 18.0 GiB (resources.memoryBytes) ${host}; ${lower}`, "resources", "memoryBytes"],
      [{ default: "declared" }, {}, `declared needs 20.0 GiB (declared) ${host}; ${smaller}`, "model"],
    ] as const) {
      const { is, message: told, details } = await put(model, more);
      assert.deepEqual([is, told, details?.["path"]], ["409 config.fit", message, path]);
    }
  });

  it("a configuration with such a slot is reported with its place, unsaved or in the directory", async () => {
    const text = '# large\n[model]\ndefault = "dense"\ncontext_size = 2_000_000\n';
    const validated = (body?: object) => at.got("/api/config/validate", "POST", body);
    const place = { reason: "DoesNotFit", file: "slots/coder.toml", line: 3, column: 1, path: ["model"] };
    const unsaved = await validated({ files: { "slots/coder.toml": text } });
    assert.partialDeepStrictEqual(unsaved, { diagnostics: [place] });
    assert.match(JSON.stringify(unsaved), /"dense needs 2\d\.\d GiB .* it fits with context_size 1048576"/);
    await at.declare("slots/coder.toml", text);
    assert.deepEqual(await validated(), unsaved);
    await at.declare("slots/coder.toml", text.replace("2_000_000", "32_768"));
    assert.deepEqual(await validated(), { valid: true, diagnostics: [] });
  });

  it("a slot is taken where it fits, where a person allows it, and where nothing is known of the model", async () => {
    for (const model of [
      { contextSize: 32_768 },
      { contextSize: 2_000_000, spill: "allow" },
      { default: "later", contextSize: 2_000_000 },
    ])
      assert.ok((await at.send("PUT", "/api/slots/writer", { model: { default: "dense", ...model } })).ok);
  });

  it("the catalogue says of every curated model whether it fits, why, and how to check that", async () => {
    const answer = await at.got("/api/models/catalog");
    assert.equal(rowsOf(answer).length, (await findCatalog()).length);
    const fits = { "qwen3-0.6b": "fits", "sdxl-turbo": "does_not_fit", "kokoro-82m": "unknown" };
    for (const [id, verdict] of Object.entries(fits))
      assert.partialDeepStrictEqual(catalogRow(answer, id), { fit: { verdict } }, id);
    const row = { must_accept: true, sha256: null, size_bytes: 6_500_000_000, is_here: false };
    assert.partialDeepStrictEqual(catalogRow(answer, "sdxl-turbo"), row);
    const inputs = ["the processor, with 16.0 GiB", "a size of about 4.7 GiB, by the catalogue"];
    const more = ["llama, one request at a time", "a context of 32768 tokens"];
    const fit = { inputs: [...inputs, ...more], check: "berth probe -o wide" };
    assert.partialDeepStrictEqual(catalogRow(answer, "qwen3-8b")?.["fit"], fit);
  });
});
