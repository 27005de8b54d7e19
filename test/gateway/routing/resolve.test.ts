import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { slotStates } from "../../../src/api/states.ts";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { buildIndex, holdersOf, slotsInOrder, type ResolutionIndex } from "../../../src/gateway/routing/index.ts";
import { meansReranker, resolve, resolveAgain, resolveWanted } from "../../../src/gateway/routing/resolve.ts";
import type { UpstreamModel } from "../../../src/gateway/providers/catalog.ts";
import { modelRecord, publishedSlot, type SlotSketch } from "../../support/gateway.ts";
import { thrownBy } from "../../support/rejection.ts";
import { fc } from "../../support/fast-check.ts";

const holding = (ref: string, more: Partial<SlotSketch> = {}): SlotSketch => ({
  ...more,
  spec: { engine: "llama", model: { default: ref }, ...more.spec },
  status: { model: { ref, origin: "spec" }, ...more.status },
});

function upstreamModel(upstream: string, providerModel: string): UpstreamModel {
  return { upstream, providerModel, spec: upstreamSpecSchema.parse({ baseUrl: "http://127.0.0.1:1/v1" }) };
}

function indexOf(options: {
  slots?: Readonly<Record<string, SlotSketch>>;
  models?: readonly string[];
  upstream?: readonly string[];
}): ResolutionIndex {
  const { slots = {}, models = [], upstream = [] } = options;
  return buildIndex(
    {
      slots: () => Object.entries(slots).map(([name, sketch]) => publishedSlot(name, sketch, 1)),
      registry: () => ({ schema: 1, models: models.map(modelRecord), upstreams: [], resources: [] }),
    },
    new Map(upstream.map((ref) => [ref, upstreamModel("acme", `their-${ref}`)])),
  );
}

/** Who answers, in a few words; or why nobody does. */
function told(index: ResolutionIndex, value: string, inFlight: Readonly<Record<string, number>> = {}): unknown {
  try {
    const target = resolve(index, value, (slot) => inFlight[slot] ?? 0);
    return target.kind === "slot" ? target.slot.name : `upstream ${target.model.providerModel}`;
  } catch (error) {
    assert.ok(error instanceof ApiError);
    return { [error.code]: error.details };
  }
}

const notFound = (...suggestions: string[]): object => ({ "model.not_found": { suggestions } });
const notLoaded = (ref: string, ...slots: string[]): object => ({ "model.not_loaded": { ref, slots } });

const index = indexOf({
  slots: {
    primary: holding("tiny", {
      port: 1,
      status: { aliases: ["gpt-4o", "claude"], model: { ref: "tiny", origin: "spec" } },
    }),
    embed: {
      spec: { enabled: false, engine: "llama", model: { default: "nomic" } },
      status: { model: { ref: "nomic", origin: "spec" } },
    },
    coder: holding("vendor/coder:7b"),
    "qwen-slot": holding("qwen3:4b", { state: "error" }),
    swapped: {
      spec: { engine: "llama", model: { default: "old" } },
      status: { model: { ref: "new", origin: "swap" } },
    },
  },
  models: ["tiny", "nomic", "qwen3:4b", "vendor/coder:7b", "spare:q4", "org/spare", "coder", "both", "old", "new"],
  upstream: ["gpt-5", "acme/large:free", "tiny", "both", "claude", "primary:gpt-5"],
});
const takers = ["primary", "coder", "qwen-slot", "swapped"];

const table: readonly (readonly [what: string, value: string, answer: unknown])[] = [
  ["a built-in slot", "primary", "primary"],
  ["a built-in slot that is disabled says so itself", "embed", "embed"],
  ["a built-in slot without a manifest", "stt", "stt"],
  ["a custom slot, also where a model has its name", "coder", "coder"],
  ["an alias", "gpt-4o", "primary"],
  ["an alias, also where an upstream has that ref", "claude", "primary"],
  ["<slot>:<ref> that the slot holds", "primary:tiny", "primary"],
  ["<slot>:<ref> with slashes and colons in the ref", "coder:vendor/coder:7b", "coder"],
  ["<slot>:<ref> of a slot in error", "qwen-slot:qwen3:4b", "qwen-slot"],
  ["<slot>:<ref> of a disabled slot, which says so itself", "embed:nomic", "embed"],
  ["<slot>:<ref> that another slot holds", "coder:tiny", notLoaded("tiny", "coder")],
  ["<slot>:<ref> that only the registry knows", "primary:spare:q4", notLoaded("spare:q4", "primary")],
  ["<slot>:<ref> that only an upstream knows", "primary:gpt-5", notLoaded("gpt-5", "primary")],
  ["<slot>:<ref> that nothing knows", "primary:tinny", notFound("tiny")],
  ["<slot>: and nothing", "primary:", notFound()],
  ["<slot>:<ref> of an unconfigured slot", "stt:tiny", notLoaded("tiny", "stt")],
  ["<alias>:<ref>, for an alias is no slot's name", "gpt-4o:tiny", notFound()],
  ["a ref that a slot holds, also where an upstream has it", "tiny", "primary"],
  ["a ref with a colon", "qwen3:4b", "qwen-slot"],
  ["a ref with a slash and a colon", "vendor/coder:7b", "coder"],
  ["the ref a slot was swapped to", "new", "swapped"],
  ["the ref it was swapped from", "old", notLoaded("old", ...takers)],
  ["a ref whose only slot is disabled", "nomic", notLoaded("nomic", ...takers)],
  ["a ref that only the registry knows", "org/spare", notLoaded("org/spare", ...takers)],
  ["a ref of the registry that an upstream serves", "both", "upstream their-both"],
  ["an upstream's ref", "gpt-5", "upstream their-gpt-5"],
  ["an upstream's ref with a slash and a colon", "acme/large:free", "upstream their-acme/large:free"],
  ["a value close to a slot's name", "primry", notFound("primary")],
  ["a value close to an alias", "gpt4o", notFound("gpt-4o")],
  ["a value close to a model", "org/spar", notFound("org/spare")],
  ["a value that differs in case", "Primary", notFound("primary")],
  ["a value that differs in case, of a ref", "TINY", notFound("tiny")],
  ["a value like nothing", "something-else-entirely", notFound()],
  ["nothing", "", notFound()],
  ["a blank before it", " primary", notFound("primary")],
  ["a name that objects have", "__proto__", notFound()],
  ["another", "constructor:x", notFound()],
  ["a colon first", ":tiny", notFound("tiny")],
];

describe("resolve", () => {
  for (const [what, value, answer] of table) {
    it(`${what}: ${value}`, () => assert.deepEqual(told(index, value), answer));
  }

  it("prefers, among slots that hold a ref, an available slot, then the least busy, then the first by name", () => {
    const both = indexOf({
      slots: { a: holding("m", { state: "starting" }), b: holding("m", { port: 1 }), c: holding("m", { port: 2 }) },
    });
    assert.equal(told(both, "m", { b: 5, c: 5 }), "b");
    assert.equal(told(both, "m", { b: 5, c: 4 }), "c");
    assert.equal(told(both, "m", { b: 1e6, c: 1e6 + 1 }), "b");
    const cold = indexOf({ slots: { a: holding("m", { state: "offline" }), b: holding("m", { state: "error" }) } });
    assert.equal(told(cold, "m"), "a");
    assert.equal(told(cold, "m", { a: 1 }), "b");
  });

  it("lets a slot keep its ref in every state", () => {
    for (const state of slotStates)
      assert.equal(told(indexOf({ slots: { a: holding("m", { state }) }, models: ["m"] }), "m"), "a", state);
  });

  it("gives a name to the slot that has it, and not to the slot with that alias", () => {
    const clash = indexOf({
      slots: { a: holding("m", { status: { aliases: ["b"], model: { ref: "m", origin: "spec" } } }), b: holding("n") },
    });
    assert.equal(told(clash, "b"), "b");
  });

  it("never falls back to another model", () => {
    const names = ["primary", "coder", "embed", "tiny", "vendor/coder", "7b", "gpt-4o", "both", "spare", "q4", "x", ""];
    const part = fc.constantFrom(...names);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(":")),
          fc.string(),
        ),
        (value) => {
          const answer = told(index, value);
          if (typeof answer !== "string") return;
          if (answer.startsWith("upstream ")) {
            assert.equal(answer, `upstream their-${value}`);
            return;
          }
          const slot = index.slots.get(answer);
          const names = [answer, ...(slot?.status?.aliases ?? []), slot?.status?.model.ref];
          assert.ok(
            names.includes(value) || value === `${answer}:${slot?.status?.model.ref}`,
            `${value} gave ${answer}`,
          );
        },
      ),
    );
  });

  it("does not repeat a long value at length", () => {
    const failure = thrownBy(() => resolve(index, "x".repeat(100_000), () => 0), ApiError);
    assert.ok(failure.message.length < 500);
  });
});

it("slotsInOrder: built-ins as the specification has them, then the others by name", () => {
  assert.deepEqual(
    slotsInOrder(indexOf({ slots: { zeta: {}, img: {}, alpha: {}, primary: {}, "a-b": {} } })).map(({ name }) => name),
    ["primary", "embed", "stt", "tts", "img", "a-b", "alpha", "zeta"],
  );
});

it("models that requests choose belong to their slot, unless another slot holds them; an unknown one names its list", () => {
  const since = "2026-01-01T00:00:00.000Z";
  const onRequest = { usual: "small", refs: ["small", "large", "lost"], chosen: "small", since, failed: [] };
  const choosing = indexOf({
    slots: {
      coder: holding("small", { port: 1, status: { model: { ref: "small", origin: "spec" }, onRequest } }),
      other: holding("large", { state: "offline" }),
    },
    models: ["small", "large"],
  });
  for (const [value, slot, ref] of [
    ["coder", "coder", "small"],
    ["small", "coder", "small"],
    ["coder:small", "coder", "small"],
    ["coder:large", "coder", "large"],
    ["large", "other", undefined],
  ] as const) {
    const target = resolve(choosing, value, () => 0);
    assert.deepEqual(target.kind === "slot" && [target.slot.name, target.ref], [slot, ref], value);
  }
  const { code, message } = thrownBy(() => resolve(choosing, "coder:lost", () => 0), ApiError);
  assert.equal(code, "model.not_found");
  assert.match(message, /slot coder lists lost in model.onRequest/);
});

it("resolveWanted gives a route's own slot any model but a provider's that has the capability and no slot's name", () => {
  const names = ["far", "voice", "nick", "tts", "tts:voice"];
  const tts = holding("voice", { status: { aliases: ["nick"], model: { ref: "voice", origin: "spec" } } });
  const known = indexOf({ slots: { tts }, upstream: names });
  // A provider's capabilities are chat and some others by default.
  const found = [...names, "nobody"].map((model) =>
    [{ unless: "chat" } as const, { unless: "image" } as const, {}].map((more) => {
      const wanted = { model, fixedSlot: { slot: "tts", ...more } };
      return resolveWanted(known, wanted, () => 0).kind;
    }),
  );
  const slot = ["slot", "slot", "slot"];
  assert.deepEqual(found, [["upstream", "slot", "slot"], slot, slot, slot, slot, slot]);
});

it("resolveAgain finds the slot for which a request has waited, and asks to send it again where its name is another's", () => {
  const elsewhere = indexOf({
    slots: {
      coder: holding("m", { state: "offline" }),
      reader: holding("m", { port: 1, status: { aliases: ["nick"], model: { ref: "m", origin: "spec" } } }),
    },
  });
  const coder = elsewhere.slots.get("coder");
  assert.ok(coder !== undefined);
  assert.equal(resolveAgain(elsewhere, { model: "m" }, coder).slot.name, "coder", "though another slot holds it too");
  const { code, details, headers } = thrownBy(() => resolveAgain(elsewhere, { model: "nick" }, coder), ApiError);
  assert.deepEqual([code, headers], ["slot.not_ready", { "retry-after": "1" }]);
  assert.deepEqual(details, { slot: "coder", state: "offline", reason: "Changed" });
});

it("the model of a slot's second process is meant by its ref, alone or behind the slot's name, and by neither name of the slot", () => {
  const holder = holding("nomic", { port: 1, spec: { model: { default: "nomic", rerank: "ranker" } } });
  const ranking = indexOf({ slots: { embed: holder }, models: ["nomic", "ranker"] });
  const slot = ranking.slots.get("embed");
  assert.ok(slot);
  for (const [value, isMeant] of Object.entries({ ranker: true, "embed:ranker": true, embed: false, nomic: false })) {
    assert.equal(told(ranking, value), "embed");
    assert.equal(meansReranker(slot, value), isMeant, value);
  }
});

it("the holders of a model are the enabled slots that need one of its files, in the order of the slots", () => {
  const files = { same: "big-1", eyes: "eyes", ranker: "ranker", next: "next", free: "free" };
  const registry = [
    { ...modelRecord("big"), files: ["/m/big-1.gguf", "/m/big-2.gguf"], projectorPath: "/m/eyes.gguf" },
    ...Object.entries(files).map(([ref, file]) => ({ ...modelRecord(ref), files: [`/m/${file}.gguf`] })),
  ];
  const slots = {
    zeta: holding("big"),
    alpha: { spec: { engine: "llama", model: { default: "same", rerank: "ranker", onRequest: ["same", "next"] } } },
    off: { spec: { engine: "llama", enabled: false, model: { default: "free" } } },
    seeing: { spec: { engine: "llama", model: { default: "gone", projector: "/m/free.gguf" } } },
  } satisfies Readonly<Record<string, SlotSketch>>;
  const published = Object.entries(slots).map(([name, sketch]) => publishedSlot(name, sketch, 1));
  const known = buildIndex(
    { slots: () => published, registry: () => ({ schema: 1, models: registry, upstreams: [], resources: [] }) },
    new Map(),
  );
  const names = registry.map((model) => [model.ref, holdersOf(known, model).map(({ name }) => name)]);
  assert.deepEqual(Object.fromEntries(names), {
    big: ["zeta", "alpha"],
    same: ["zeta", "alpha"],
    eyes: ["zeta"],
    ranker: ["alpha"],
    next: ["alpha"],
    free: ["seeing"],
  });
});
