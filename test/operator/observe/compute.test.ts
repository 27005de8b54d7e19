import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { Site } from "../site.ts";

const recorded = async (name: string): Promise<string> => await readFile(`test/fixtures/h100/load-${name}.log`, "utf8");
const [whole, part, none] = await Promise.all(["l8-base", "l8-toobig-auto", "h-no-device-env"].map(recorded));
const slot = (spec: SlotSpecInput = {}): SlotSpecInput => ({ backend: "cuda", model: { default: "tiny" }, ...spec });

const cases: readonly [string, string | undefined, SlotSpecInput, string | undefined, RegExp][] = [
  ["all layers on the GPU", whole, slot(), undefined, /^$/],
  ["a part of the layers", part, slot(), "True/NotOnGpu", /asks for cuda, and 29 of 33 layers are on a GPU; the rest/],
  [
    "a part, and spilling is allowed",
    part,
    slot({ model: { default: "tiny", spill: "allow" } }),
    "True/NotOnGpu",
    /29/,
  ],
  ["as many as the manifest says", part, slot({ model: { default: "tiny", gpuLayers: 29 } }), undefined, /^$/],
  ["fewer", part, slot({ model: { default: "tiny", gpuLayers: 30 } }), "True/NotOnGpu", /29 of 33 layers/],
  ["no layer", none, slot(), "True/NotOnGpu", /0 of 33 layers are on a GPU; does the engine's program see it/],
  ["a processor that was asked for", none, slot({ backend: "cpu" }), undefined, /^$/],
  ["a GPU that was not", whole, slot({ backend: "cpu" }), "True/OnGpu", /its engine uses CUDA0$/],
  [
    "a GPU that the manifest's environment gives back",
    whole,
    slot({ backend: "cpu", env: { CUDA_VISIBLE_DEVICES: "0" } }),
    "True/OnGpu",
    /uses CUDA0: env\.CUDA_VISIBLE_DEVICES of the manifest says so$/,
  ],
  ["an engine that says nothing", "", slot(), undefined, /^$/],
];

describe("status has the devices that the engine itself reports", () => {
  for (const [name, said = "", spec, condition, message] of cases) {
    it(name, async () => {
      await using site = new Site();
      site.said.set("a", said);
      site.source.save("a", spec);
      await site.start();
      await site.advance(5);
      assert.equal(site.state("a"), "ready");
      assert.equal(site.condition("a", "Degraded"), condition);
      const told = site.slot("a").status.conditions.find(({ type }) => type === "Degraded");
      assert.match(told?.message ?? "", message);
      assert.equal(site.condition("a", "Ready"), "True/Loaded", "it serves all the same");
    });
  }

  it("status keeps the engine's devices under the next operator, whose log may be gone, and drops them with the engine", async () => {
    await using site = new Site();
    site.said.set("a", part ?? "");
    site.source.save("a", slot());
    await site.start();
    await site.advance(5);
    const before = site.slot("a").status.compute;
    assert.deepEqual([before?.layersOffloaded, before?.layersTotal], [29, 33]);
    site.said.clear();
    await site.start();
    await site.advance(5);
    assert.deepEqual(site.slot("a").status.compute, before);
    await site.request("a", "unload");
    await site.advance(40);
    assert.deepEqual([site.state("a"), site.slot("a").status.compute], ["offline", undefined]);
    assert.equal(site.condition("a", "Degraded"), undefined);
  });

  const chats: readonly [string, SlotSpecInput, boolean | undefined, string | undefined][] = [
    ["a chat model", slot(), true, undefined],
    ["a file that tells nothing of it", slot(), undefined, undefined],
    ["base weights", slot(), false, "True/NoChatTemplate"],
    ["base weights that only complete texts", slot({ capabilities: ["completions"] }), false, undefined],
    ["base weights with a template of the manifest", slot({ args: ["--chat-template", "gemma"] }), false, undefined],
  ];
  for (const [name, spec, hasChatTemplate, condition] of chats) {
    it(`a chat slot says that its model was made for no chats: ${name}`, async () => {
      await using site = new Site();
      site.said.set("a", whole ?? "");
      site.setModel("tiny", {
        architecture: "llama",
        capabilities: ["chat"],
        ...(hasChatTemplate === undefined ? {} : { hasChatTemplate }),
      });
      site.source.save("a", spec);
      await site.start();
      await site.advance(5);
      assert.equal(site.condition("a", "Degraded"), condition);
      assert.equal(site.condition("a", "Ready"), "True/Loaded", "it serves all the same");
    });
  }
});
