import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { slotSpecSchema, completeSlot, type SlotSpecInput } from "../../../src/api/slot.ts";
import { specFit } from "../../../src/models/fit/spec-fit.ts";
import { recorded, smi } from "../../hardware/h100-machine.ts";
import { probed } from "../../hardware/tree.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { realShapes } from "../../support/shapes.ts";

describe("what fits a machine that was laid out as files", async () => {
  const lengths = realShapes["llama3-8b"];
  assert.ok(lengths !== undefined);
  const shape = await shapeFrom({ ...lengths, quantization: "Q4_K_M" }, { words: 8 });
  const said = (facts: HardwareFacts, backend: string, spec: SlotSpecInput): string | undefined =>
    specFit(completeSlot("primary", slotSpecSchema.parse(spec)), shape, facts, backend)?.message;

  it("is reported with the sum, and with the context and layers that would fit", async () => {
    const facts = await probed({ tree: recorded, smi: smi() });
    const model = { default: "l8", contextSize: 131_072 };
    assert.equal(said(facts, "cuda", { backend: "cuda", model }), undefined);
    const message = said(facts, "cuda", { backend: "cuda", model: { ...model, parallel: 5 } });
    // As the recorded engine needed: `l8-toobig-auto`, 85 GiB.
    assert.equal(
      message,
      "needs 85.1 GiB (weights 4.3 GiB, context 80.0 GiB, work 236 MiB, driver 600 MiB) on 0000:00:06.0, which has 79.2 GiB (its own memory); it fits with context_size 65536, or with gpu_layers 30, which is slower",
    );
    const fitting = { ...model, contextSize: 65_536, parallel: 5 };
    assert.equal(said(facts, "cuda", { backend: "cuda", model: fitting }), undefined, "what it names does fit");
    assert.equal(said(facts, "cuda", { backend: "cuda", model: { ...model, parallel: 5, gpuLayers: 30 } }), undefined);
    // Flags that move weights: the header gives no figure for these.
    const moved = { backend: "cuda", model: { ...model, parallel: 5 }, args: ["--n-cpu-moe", "24"] } as const;
    assert.equal(said(facts, "cuda", { ...moved, args: [...moved.args] }), undefined);
  });
});
