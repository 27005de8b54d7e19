import { isRecord } from "../../lib/record.ts";
import type { Omissions, SlotFields } from "./imported.ts";
import { carried, inArguments, inModel, inRequest, layers, loadMode, type Mapping, type Setting } from "./mapping.ts";
import type { SourceDocument } from "./source-text.ts";

const otherwise = "Berth has no such setting";

/** The settings of a model, by LM Studio's keys. */
const mapping: Mapping = {
  "llm.load.contextLength": inModel("contextSize"),
  "llm.load.llama.cpuThreadPoolSize": inModel("threads"),
  "llm.load.llama.acceleration.offloadRatio": (ratio) => {
    if (ratio === 0 || ratio === "off") return { model: layers(0) };
    // A part of all layers has no number of layers.
    return ratio === 1 || ratio === "max" ? {} : otherwise;
  },
  "llm.load.llama.tryMmap": (value) => (value === false ? loadMode("none") : {}),
  "llm.load.llama.keepModelInMemory": (value) => (value === true ? loadMode("mlock") : {}),
  "llm.load.llama.evalBatchSize": inArguments("--batch-size"),
  "llm.load.llama.physicalBatchSize": inArguments("--ubatch-size"),
  "llm.load.llama.flashAttention": (value) => ({ args: ["--flash-attn", value === true ? "on" : "off"] }),
  "llm.load.llama.kCacheQuantizationType": inArguments("--cache-type-k"),
  "llm.load.llama.vCacheQuantizationType": inArguments("--cache-type-v"),
  "llm.load.llama.ropeFrequencyBase": inArguments("--rope-freq-base"),
  "llm.load.llama.ropeFrequencyScale": inArguments("--rope-freq-scale"),
  "llm.load.offloadKVCacheToGpu": (value) => (value === false ? { args: ["--no-kv-offload"] } : {}),
  "llm.load.numParallelSessions":
    "LM Studio's requests share one context, and Berth gives each its own: set model.parallel",
  "llm.prediction.temperature": inRequest("temperature"),
  "llm.prediction.topKSampling": inRequest("top_k"),
  "llm.prediction.topPSampling": inRequest("top_p"),
  "llm.prediction.minPSampling": inRequest("min_p"),
  "llm.prediction.llama.topKSampling": inRequest("top_k"),
  "llm.prediction.llama.topPSampling": inRequest("top_p"),
  "llm.prediction.repeatPenalty": inRequest("repeat_penalty"),
  "llm.prediction.llama.repeatPenalty": inRequest("repeat_penalty"),
  "llm.prediction.llama.presencePenalty": inRequest("presence_penalty"),
  "llm.prediction.maxPredictedTokens": inRequest("max_tokens"),
  "llm.prediction.stopStrings": inRequest("stop"),
  "llm.prediction.systemPrompt": "a slot has no system prompt: clients send it",
  "llm.prediction.promptTemplate": "llama.cpp uses the chat template in the model's file",
  preset: "LM Studio's presets are not read",
};

/** The settings of one model (`.internal/user-concrete-model-default-config`) as fields of a slot. */
export function lmSettings(source: SourceDocument, omissions: Omissions): SlotFields {
  const settings = ["load", "operation"].flatMap((part) => {
    const { fields } = isRecord(source.value[part]) ? source.value[part] : {};
    const list: readonly unknown[] = Array.isArray(fields) ? fields : [];
    return list.flatMap((field, index): readonly Setting[] => {
      if (!isRecord(field) || typeof field["key"] !== "string") return [];
      const { key, value } = field;
      const place = source.at(part, "fields", index);
      if (!isRecord(value) || !("checked" in value)) return [{ key, what: key, value, place }];
      // Such a value has a switch: off, it is not in force.
      return value["checked"] === false ? [] : [{ key, what: key, value: value["value"], place }];
    });
  });
  const { preset } = source.value;
  if (typeof preset === "string" && preset !== "")
    settings.push({ key: "preset", what: "preset", value: preset, place: source.at("preset") });
  return carried(settings, mapping, { omissions, otherwise });
}
