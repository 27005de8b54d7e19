import { z } from "zod";

export const apiVersion = "berth.dev/v1alpha1";
export const kinds = ["Slot", "Model", "Upstream", "SlotGroup"] as const;
export type Kind = (typeof kinds)[number];

/** The directory of each kind's manifests, within the configuration directory. */
export const directoryOfKind = {
  Slot: "slots",
  Model: "models",
  Upstream: "upstreams",
  SlotGroup: "groups",
} as const satisfies Record<Kind, string>;

/** Built-in slots, in the order in which `/v1/models` lists them. */
export const builtinSlots = ["primary", "embed", "stt", "tts", "img"] as const;
export type BuiltinSlot = (typeof builtinSlots)[number];

/** Whether a slot of this name exists without a file. */
export function isBuiltin(name: string): name is BuiltinSlot {
  const names: readonly string[] = builtinSlots;
  return names.includes(name);
}

export const slotNameSchema = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/,
    "must be 1 to 32 lower-case letters, digits and dashes, not at the ends",
  );

/** A registry ref: a possible value of `model`, e.g. `qwen3-4b` or `vendor/model:free`. */
export const modelRefSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,200}$/,
    "must be a letter or digit, then up to 200 of letters, digits and . _ : / @ -",
  );

export const engineKinds = ["llama", "npu", "stt", "tts", "image", "custom"] as const;
export type EngineKind = (typeof engineKinds)[number];
/** The programs by which Berth runs llama.cpp as a process. */
export const llamaPrograms = ["llama-server", "embedded"] as const;

export const backends = ["auto", "vulkan", "rocm", "cuda", "npu", "cpu"] as const;
export type Backend = (typeof backends)[number];
export const runtimeKinds = ["auto", "process", "docker", "kubernetes"] as const;
export type RuntimeKind = Exclude<(typeof runtimeKinds)[number], "auto">;

/** The capabilities of slots; each `/v1` route needs one. */
export const slotCapabilities = [
  "chat",
  "completions",
  "embeddings",
  "rerank",
  "transcription",
  "speech",
  "image",
  "vision",
  "responses",
  "messages",
] as const;
export type SlotCapability = (typeof slotCapabilities)[number];

/** The capabilities together with those that the gateway translates into a chat (DECISIONS 18). */
export function withTranslated(capabilities: readonly SlotCapability[]): SlotCapability[] {
  const translated = capabilities.includes("chat") ? (["messages", "responses"] as const) : [];
  return [...new Set([...capabilities, ...translated])];
}

/**
 * Routes beyond chat and completions that some engines answer themselves: `/v1/responses`, `/v1/messages`,
 * `/v1/messages/count_tokens` and `/v1/chat/completions/input_tokens`.
 */
export const engineProtocols = ["responses", "messages", "count_tokens", "input_tokens"] as const;
export type EngineProtocol = (typeof engineProtocols)[number];

export const modelCapabilities = ["chat", "embed", "rerank", "stt", "tts", "image", "vision"] as const;
export type ModelCapability = (typeof modelCapabilities)[number];

/** A slot runs one process, or two when it serves embeddings and reranking. */
export const processRoles = ["main", "rerank"] as const;
export type ProcessRole = (typeof processRoles)[number];

/** First and last port an engine may listen on (service specification, "Limits"). */
export const slotPorts = { first: 8081, last: 8099 } as const;
