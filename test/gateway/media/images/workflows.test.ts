import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseImageRequest } from "../../../../src/gateway/media/images/request.ts";
import { fillGraph, loadWorkflows, workflowFor } from "../../../../src/gateway/media/images/workflows.ts";
import { tempDir } from "../../../support/temp-dir.ts";

const workflows = loadWorkflows();
const slot = { names: ["img", "dall-e-3"], held: "sdxl-turbo" };

describe("workflows", () => {
  it("ship for the curated models", () => {
    assert.deepEqual([...workflows.keys()].toSorted(), ["flux-schnell", "sd-1.5-pruned-emaonly", "sdxl-turbo"]);
  });

  it("are found by curated id, by the slot's model names, and through the slot", () => {
    assert.equal(workflowFor(workflows, "sd-1.5-pruned-emaonly", slot).id, "sd-1.5-pruned-emaonly");
    assert.equal(workflowFor(workflows, "img", slot).id, "sdxl-turbo");
    assert.equal(workflowFor(workflows, "dall-e-3", slot).id, "sdxl-turbo");
    assert.equal(workflowFor(workflows, "img:sd-1.5-pruned-emaonly", slot).id, "sd-1.5-pruned-emaonly");
  });

  const refused: readonly (readonly [model: string, held: string | undefined, code: string, status: number])[] = [
    ["sd-3", "sdxl-turbo", "model.not_found", 404],
    ["primary", "sdxl-turbo", "model.not_found", 404],
    ["primary:sdxl-turbo", "sdxl-turbo", "model.not_found", 404],
    ["img:sd-3", "sdxl-turbo", "model.not_found", 404],
    ["img:", "sdxl-turbo", "model.not_found", 404],
    ["constructor", "sdxl-turbo", "model.not_found", 404],
    ["img", undefined, "model.not_loaded", 404],
    ["img", "qwen3-4b", "model.not_loaded", 404],
    ["flux-schnell", "sdxl-turbo", "system.not_implemented", 501],
    ["img", "flux-schnell", "system.not_implemented", 501],
  ];
  for (const [model, held, code, status] of refused) {
    it(`refuse ${model} with ${code} while img holds ${held ?? "nothing"}`, () => {
      assert.throws(() => workflowFor(workflows, model, { ...slot, held }), { code, status });
    });
  }

  it("say why flux-schnell cannot be drawn with", () => {
    assert.throws(() => workflowFor(workflows, "flux-schnell", slot), { message: /text encoders.*sdxl-turbo/ });
  });

  it("take every value of a request, and stay as they were", () => {
    const workflow = workflowFor(workflows, "img", slot);
    const before = structuredClone(workflow);
    const body = { model: "img", prompt: "a cat", n: 2, size: "768x512", steps: 2, cfg: 2.5, negative_prompt: "dogs" };
    const graph = fillGraph(workflow, parseImageRequest(Buffer.from(JSON.stringify(body))), 42);
    assert.deepEqual(graph, {
      "3": {
        class_type: "KSampler",
        inputs: {
          model: ["4", 0],
          positive: ["6", 0],
          negative: ["7", 0],
          latent_image: ["5", 0],
          seed: 42,
          steps: 2,
          cfg: 2.5,
          sampler_name: "euler_ancestral",
          scheduler: "simple",
          denoise: 1,
        },
      },
      "4": { class_type: "CheckpointLoaderSimple", inputs: { ckpt_name: "sd_xl_turbo_1.0_fp16.safetensors" } },
      "5": { class_type: "EmptyLatentImage", inputs: { width: 768, height: 512, batch_size: 2 } },
      "6": { class_type: "CLIPTextEncode", inputs: { clip: ["4", 1], text: "a cat" } },
      "7": { class_type: "CLIPTextEncode", inputs: { clip: ["4", 1], text: "dogs" } },
      "8": { class_type: "VAEDecode", inputs: { samples: ["3", 0], vae: ["4", 2] } },
      "9": { class_type: "SaveImage", inputs: { images: ["8", 0], filename_prefix: "berth" } },
    });
    assert.deepEqual(workflow, before);
  });

  it("draw with their own defaults where the client omits the values", () => {
    const defaults = { "sdxl-turbo": [4, 1], "sd-1.5-pruned-emaonly": [20, 7] };
    for (const [id, [steps, cfg]] of Object.entries(defaults)) {
      const request = parseImageRequest(Buffer.from(JSON.stringify({ model: id, prompt: "x" })));
      const graph = fillGraph(workflowFor(workflows, id, slot), request, 1);
      assert.equal(graph["3"]?.inputs["steps"], steps);
      assert.equal(graph["3"]?.inputs["cfg"], cfg);
      assert.deepEqual(graph["5"]?.inputs, { width: 512, height: 512, batch_size: 1 });
    }
  });

  it("are refused when the parameter map names no input of the graph", async () => {
    await using dir = await tempDir();
    const broken = structuredClone(workflowFor(workflows, "img", slot));
    broken.parameters.seed = "3.sed";
    await writeFile(join(dir.path, "broken.json"), JSON.stringify(broken));
    assert.throws(() => loadWorkflows(dir.path), /the graph has no input 3\.sed/);
  });
});
