import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  mergeCatalog,
  modelNames,
  type CatalogInput,
  type UpstreamModel,
} from "../../../src/gateway/providers/catalog.ts";
import { specOf } from "./fixture.ts";
import { fc } from "../../support/fast-check.ts";

const baseUrl = "https://api.example.com/v1";
const none: ReadonlyMap<string, UpstreamModel> = new Map();

function input(name: string, models: readonly object[], discovered: readonly string[] = [], prefix = ""): CatalogInput {
  return { name, spec: specOf({ baseUrl, models, discover: { prefix } }), discovered };
}

/** The catalogue as `ref → upstream/name there`. */
function shown(catalog: ReadonlyMap<string, UpstreamModel>): Record<string, string> {
  return Object.fromEntries([...catalog].map(([ref, model]) => [ref, `${model.upstream}/${model.providerModel}`]));
}

describe("the catalogue of upstreams", () => {
  it("holds declared refs and discovered ones with their prefix", () => {
    const acme = input("acme", [{ ref: "big", upstreamModel: "acme-9" }, { ref: "same" }], ["m1", "org/m2:free"], "a/");
    assert.deepEqual(shown(mergeCatalog([acme], none)), {
      big: "acme/acme-9",
      same: "acme/same",
      "a/m1": "acme/m1",
      "a/org/m2:free": "acme/org/m2:free",
    });
  });

  it("leaves out refs that no client could name", () => {
    const acme = input("acme", [], ["fine", "with space", "", "-dash", "x".repeat(300), "ключ"]);
    assert.deepEqual(shown(mergeCatalog([acme], none)), { fine: "acme/fine" });
  });

  it("forgets discovered models where nothing is to be discovered", () => {
    const acme = { name: "acme", spec: specOf({ baseUrl }), discovered: ["m1"] };
    assert.deepEqual(shown(mergeCatalog([acme], none)), { "gpt-double": "acme/gpt-double" });
  });

  it("gives every ref to one upstream that offers it, after any history", () => {
    const name = fc.constantFrom<string[]>("m1", "m2", "m3", "m4");
    const upstream = fc.record({ declared: fc.uniqueArray(name), discovered: fc.uniqueArray(name) });
    const world = fc.uniqueArray(fc.tuple(fc.constantFrom("a", "b", "c"), upstream), { selector: ([key]) => key });
    fc.assert(
      fc.property(fc.array(world, { minLength: 1, maxLength: 4 }), (worlds) => {
        let catalog = none;
        for (const present of worlds) {
          const before = catalog;
          catalog = mergeCatalog(
            present.map(([key, { declared, discovered }]) =>
              input(
                key,
                declared.map((ref) => ({ ref })),
                discovered,
              ),
            ),
            before,
          );
          const declaredBy = (ref: string): string[] =>
            present.filter(([, { declared }]) => declared.includes(ref)).map(([key]) => key);
          const discoveredBy = (ref: string): string[] =>
            present.filter(([, { discovered }]) => discovered.includes(ref)).map(([key]) => key);
          for (const ref of ["m1", "m2", "m3", "m4"]) {
            const offers = declaredBy(ref).length > 0 ? declaredBy(ref) : discoveredBy(ref);
            const holder = catalog.get(ref)?.upstream;
            const last = before.get(ref)?.upstream;
            if (last !== undefined && offers.includes(last)) assert.equal(holder, last);
            else assert.equal(holder, offers[0]);
          }
        }
      }),
    );
  });
});

describe("a provider's list of models", () => {
  const lists: readonly (readonly [what: string, list: unknown, names: readonly string[]])[] = [
    ["OpenAI's", { object: "list", data: [{ id: "a" }, { id: "b" }] }, ["a", "b"]],
    ["a bare one", [{ id: "a" }, "b"], ["a", "b"]],
    ["one of names", { models: [{ name: "a" }] }, ["a"]],
    ["one with repetitions and oddities", { data: [{ id: "a" }, { id: "a" }, { id: 5 }, null, {}] }, ["a"]],
    ["an empty one", { data: [] }, []],
  ];
  for (const [what, list, names] of lists) {
    it(`may be ${what}`, () => assert.deepEqual(modelNames(list), names));
  }

  for (const list of [null, 5, "list", {}, { data: "x" }, { error: { message: "no" } }]) {
    it(`is not ${JSON.stringify(list)}`, () => assert.throws(() => modelNames(list), /no list of models/));
  }

  it("is cut at a length", () => {
    assert.equal(modelNames(Array.from({ length: 20_000 }, (_, index) => `m${index}`)).length, 10_000);
  });
});
