import type { EngineKind } from "../api/names.ts";
import { containerOnly } from "./container-only.ts";
import { custom } from "./custom.ts";
import type { Engine } from "./engine.ts";
import { llama } from "./llama.ts";

/** Every engine kind and its adapter; a missing one is a type error. Probe paths are those of docs/engines.md. */
export const engines = {
  llama,
  custom,
  npu: containerOnly("npu", ["chat", "completions", "embeddings", "transcription"], "/api/tags"),
  stt: containerOnly("stt", ["transcription"], "/health"),
  tts: containerOnly("tts", ["speech"], "/health"),
  image: containerOnly("image", ["image"], "/system_stats"),
} as const satisfies Record<EngineKind, Engine>;
