import type { SlotSpecInput } from "../../api/slot.ts";
import { isRecord } from "../../lib/record.ts";
import type { LeftList, SlotFields } from "./imported.ts";
import { loadModeOf } from "./llama-line.ts";
import type { SourceDocument } from "./source-text.ts";

/** Fields of requests by LM Studio's key, which begins with `llm.prediction.`. */
const inRequest: Readonly<Record<string, string>> = {
  temperature: "temperature",
  topKSampling: "top_k",
  topPSampling: "top_p",
  minPSampling: "min_p",
  "llama.topKSampling": "top_k",
  "llama.topPSampling": "top_p",
  repeatPenalty: "repeat_penalty",
  "llama.repeatPenalty": "repeat_penalty",
  "llama.presencePenalty": "presence_penalty",
  maxPredictedTokens: "max_tokens",
  stopStrings: "stop",
};

/** Arguments of llama-server by LM Studio's key, which begins with `llm.load.`; a list of the words for the value. */
const inArguments: Readonly<Record<string, (value: unknown) => readonly string[]>> = {
  "llama.evalBatchSize": (value) => ["--batch-size", String(value)],
  "llama.physicalBatchSize": (value) => ["--ubatch-size", String(value)],
  "llama.flashAttention": (value) => ["--flash-attn", value === true ? "on" : "off"],
  "llama.kCacheQuantizationType": (value) => ["--cache-type-k", String(value)],
  "llama.vCacheQuantizationType": (value) => ["--cache-type-v", String(value)],
  "llama.ropeFrequencyBase": (value) => ["--rope-freq-base", String(value)],
  "llama.ropeFrequencyScale": (value) => ["--rope-freq-scale", String(value)],
  offloadKVCacheToGpu: (value) => (value === false ? ["--no-kv-offload"] : []),
};

/** Why a setting has no like. */
const others: Readonly<Record<string, string>> = {
  "llm.load.numParallelSessions":
    "LM Studio's requests share one context, and Berth gives each its own: set model.parallel",
  "llm.prediction.systemPrompt": "a slot has no system prompt: clients send it",
  "llm.prediction.promptTemplate": "llama.cpp uses the chat template in the model's file",
};

/** The settings of one model (`.internal/user-concrete-model-default-config`) as fields of a slot. */
export function lmSettings(source: SourceDocument, left: LeftList): SlotFields {
  let model: NonNullable<SlotSpecInput["model"]> = {};
  const args: string[] = [];
  const set: Record<string, unknown> = {};
  let loadMode: string | undefined;
  for (const part of ["load", "operation"]) {
    const fields = isRecord(source.value[part]) ? source.value[part]["fields"] : undefined;
    const list: readonly unknown[] = Array.isArray(fields) ? fields : [];
    for (const [index, field] of list.entries()) {
      if (!isRecord(field) || typeof field["key"] !== "string") continue;
      const { key } = field;
      // Some values have a switch: off, they are not in force.
      const { checked, value } =
        isRecord(field["value"]) && "checked" in field["value"]
          ? field["value"]
          : { checked: true, value: field["value"] };
      if (checked === false) continue;
      const load = key.startsWith("llm.load.") ? key.slice("llm.load.".length) : "";
      const name = key.startsWith("llm.prediction.") ? inRequest[key.slice("llm.prediction.".length)] : undefined;
      const words = inArguments[load];
      const count = typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
      if (load === "contextLength" && count !== undefined) model = { ...model, contextSize: count };
      else if (load === "llama.cpuThreadPoolSize" && count !== undefined) model = { ...model, threads: count };
      else if (load === "llama.acceleration.offloadRatio" && isWhole(value)) model = { ...model, ...layersOf(value) };
      else if (load === "llama.tryMmap") loadMode = value === false ? "none" : loadMode;
      else if (load === "llama.keepModelInMemory") loadMode = value === true ? "mlock" : loadMode;
      else if (words !== undefined) args.push(...words(value));
      else if (name !== undefined) set[name] = value;
      else left.add(source.at(part, "fields", index), key, others[key] ?? "Berth has no such setting");
    }
  }
  if (typeof source.value["preset"] === "string" && source.value["preset"] !== "")
    left.add(source.at("preset"), "preset", "LM Studio's presets are not read");
  return {
    ...(Object.keys(model).length === 0 ? {} : { model }),
    ...(args.length === 0 ? {} : { args }),
    ...loadModeOf(loadMode),
    ...(Object.keys(set).length === 0 ? {} : { request: { set } }),
  };
}

/** All layers on the GPU, or none; a part of them has no number of layers. */
function isWhole(value: unknown): value is 0 | 1 | "max" | "off" {
  return value === 0 || value === 1 || value === "max" || value === "off";
}

function layersOf(ratio: 0 | 1 | "max" | "off"): NonNullable<SlotSpecInput["model"]> {
  return ratio === 0 || ratio === "off" ? { gpuLayers: 0 } : {};
}
