import type { ModelRecord } from "../api/model.ts";
import type { ProcessRole, SlotCapability } from "../api/names.ts";
import type { SlotInputs } from "./engine.ts";

/** How a llama.cpp process is launched: embeddings and reranking exclude chat, and each other. */
export type Mode = "chat" | "embedding" | "reranking";

const modeOfCapability: Readonly<Partial<Record<SlotCapability, Mode>>> = {
  chat: "chat",
  completions: "chat",
  vision: "chat",
  responses: "chat",
  messages: "chat",
  embeddings: "embedding",
  rerank: "reranking",
};

/** The mode that answers a capability; undefined where llama.cpp lacks it. */
export function modeFor(capability: SlotCapability): Mode | undefined {
  return modeOfCapability[capability];
}

/** The mode of each of the slot's processes: capabilities in the spec take precedence over slot name and model. */
export function modes(input: SlotInputs): ReadonlyMap<ProcessRole, Mode> {
  const main = mainMode(input);
  const found = new Map<ProcessRole, Mode>([["main", main]]);
  if (main === "embedding" && wantsRerank(input)) found.set("rerank", "reranking");
  return found;
}

function mainMode({ slot, spec, model }: SlotInputs): Mode {
  if (spec.capabilities !== undefined) {
    const wanted = spec.capabilities.map(modeFor);
    return (["chat", "embedding", "reranking"] as const).find((mode) => wanted.includes(mode)) ?? "chat";
  }
  const isRanker = declares(model, "rerank") && !declares(model, "embed");
  if (slot === "embed") return isRanker && !declares(model, "chat") ? "reranking" : "embedding";
  if (declares(model, "chat")) return "chat";
  if (declares(model, "embed")) return "embedding";
  return isRanker ? "reranking" : "chat";
}

function wantsRerank({ spec, model }: SlotInputs): boolean {
  if (spec.model.rerank !== undefined) return true;
  if (spec.capabilities !== undefined) return spec.capabilities.includes("rerank");
  return declares(model, "embed") && declares(model, "rerank");
}

function declares(model: ModelRecord | undefined, capability: "embed" | "rerank" | "chat"): boolean {
  return model?.capabilities.includes(capability) === true;
}
