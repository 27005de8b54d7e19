import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { computeIn } from "../../../src/engines/llama-report.ts";
import { computeClaims } from "../../../src/operator/observe/compute.ts";
import { input, specOf } from "../fixture.ts";
import { Site } from "../site.ts";

const recorded = (name: string): string => readFileSync(`test/fixtures/h100/load-${name}.log`, "utf8");
const [whole, part, none] = [recorded("l8-base"), recorded("l8-toobig-auto"), recorded("h-no-device-env")];
const slot = (spec: SlotSpecInput = {}): SlotSpecInput => ({ backend: "cuda", model: { default: "tiny" }, ...spec });
const onCpu = slot({ backend: "cpu" });
const withGpu = slot({ backend: "cpu", env: { CUDA_VISIBLE_DEVICES: "0" } });
const layers = (gpuLayers: number): SlotSpecInput => slot({ model: { default: "tiny", gpuLayers } });

const cases: readonly [string, said: string, spec: SlotSpecInput, expected: RegExp | undefined][] = [
  ["all layers on the GPU", whole, slot(), undefined],
  ["a part of them", part, slot(), /^NotOnGpu: .*asks for cuda, and 29 of 33 layers are on a GPU; the rest/],
  ["a part, and spilling is allowed", part, slot({ model: { default: "tiny", spill: "allow" } }), /^NotOnGpu: .*29/],
  ["as many as the manifest says", part, layers(29), undefined],
  ["fewer", part, layers(30), /^NotOnGpu: .*29 of 33 layers/],
  ["no layer", none, slot(), /^NotOnGpu: .*0 of 33 layers are on a GPU; does the engine's program see it/],
  ["a processor that was asked for", none, onCpu, undefined],
  ["a GPU that was not", whole, onCpu, /^OnGpu: .*its engine uses CUDA0$/],
  [
    "a GPU that the manifest's environment gives back",
    whole,
    withGpu,
    /^OnGpu: .*uses CUDA0: env\.CUDA_VISIBLE_DEVICES of the manifest says so$/,
  ],
  ["an engine that says nothing", "", slot(), undefined],
];

describe("status has the devices that the engine itself reports", () => {
  for (const [name, said, given, expected] of cases) {
    it(`a slot is degraded where its engine computes elsewhere: ${name}`, () => {
      const { backend } = specOf(given);
      const compute = computeIn(said);
      const claims = computeClaims(input({ spec: given, backend, ...(compute === undefined ? {} : { compute }) }));
      const told = claims.map(({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`);
      if (expected === undefined) assert.deepEqual(told, []);
      else assert.match(told.join("\n").replace(/^Degraded True /, ""), expected);
    });
  }

  it("under the next operator too, whose log may be gone, and drops them with the engine; it serves all the same", async () => {
    await using site = new Site();
    site.said.set("a", part);
    await site.run({ a: slot() });
    const before = site.slot("a").status.compute;
    assert.deepEqual([before?.layersOffloaded, before?.layersTotal], [29, 33]);
    assert.deepEqual([site.condition("a", "Degraded"), site.condition("a", "Ready")], ["True/NotOnGpu", "True/Loaded"]);
    site.said.clear();
    await site.start();
    await site.advance(5);
    assert.deepEqual(site.slot("a").status.compute, before);
    await site.request("a", "unload");
    await site.advance(40);
    assert.deepEqual([site.state("a"), site.slot("a").status.compute], ["offline", undefined]);
    assert.equal(site.condition("a", "Degraded"), undefined);
  });
});

it("a chat slot says that its model was made for no chats, and serves all the same", async () => {
  await using site = new Site();
  const slots: Record<string, readonly [SlotSpecInput, hasChatTemplate: boolean | undefined, string | undefined]> = {
    chat: [slot(), true, undefined],
    unknown: [slot(), undefined, undefined],
    base: [slot(), false, "True/NoChatTemplate"],
    completes: [slot({ capabilities: ["completions"] }), false, undefined],
    templated: [slot({ args: ["--chat-template", "gemma"] }), false, undefined],
  };
  for (const [name, [, hasChatTemplate]] of Object.entries(slots)) {
    site.said.set(name, whole);
    site.setModel(name, { capabilities: ["chat"], ...(hasChatTemplate === undefined ? {} : { hasChatTemplate }) });
  }
  const specs = Object.entries(slots).map(([name, [spec]]) => [name, { ...spec, model: { default: name } }] as const);
  await site.run(Object.fromEntries(specs));
  for (const [name, [, , expected]] of Object.entries(slots))
    assert.deepEqual(
      [site.condition(name, "Degraded"), site.condition(name, "Ready")],
      [expected, "True/Loaded"],
      name,
    );
});
