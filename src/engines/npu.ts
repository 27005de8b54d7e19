import type { SlotInputs } from "./engine.ts";
import { singleProcess } from "./single.ts";

/**
 * FastFlowLM (https://fastflowlm.com/docs): `flm` of this machine, or of an image that the manifest names. It has its
 * own store for models, by tags such as `qwen3:4b`.
 */
export const npu = singleProcess({
  kind: "npu",
  capabilities: ["chat", "completions", "embeddings", "transcription"],
  // Without locked memory the driver cannot pin its buffers; models are fetched into the engine's own store.
  needs: { port: 8086, writesRoot: true, needsInit: true },
  healthPath: "/api/tags",
  launch(input, { host, port }) {
    const tag = tagOf(input);
    if (tag === undefined) return { reason: "ModelNotFound", message: "the slot names no model" };
    const { contextSize } = input.spec.model;
    const flags = [
      ...(contextSize === undefined ? [] : ["--ctx-len", String(contextSize)]),
      "--asr",
      "1",
      "--embed",
      "1",
    ];
    // A process is `flm` itself; in an image it is the entrypoint or on its PATH.
    const program = input.placement.runs === "program" ? ["flm"] : [];
    return {
      command: [...program, "serve", tag, "--host", host, "--port", String(port), ...flags],
      identity: [tag, ...flags],
    };
  },
  warmUp: (input) => ({
    path: "/v1/chat/completions",
    body: { model: tagOf(input) ?? "", messages: [{ role: "user", content: "hi" }], max_tokens: 1 },
  }),
  servedModel: (input) => tagOf(input) ?? input.slot,
  // The engine's own store holds the files.
  model: () => undefined,
});

/** `flm://family:size` of the model's record, else the ref unchanged. */
function tagOf({ ref, model }: SlotInputs): string | undefined {
  return model?.source.startsWith("flm://") === true ? model.source.slice("flm://".length) : ref;
}
