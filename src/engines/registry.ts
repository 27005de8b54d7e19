import type { EngineKind } from "../api/names.ts";
import { custom } from "./custom.ts";
import type { Engine } from "./engine.ts";
import { image } from "./image.ts";
import { llama } from "./llama.ts";
import { npu } from "./npu.ts";
import { stt } from "./stt.ts";
import { tts } from "./tts.ts";

/** Every engine kind and its adapter; a missing adapter is a type error. */
export const engines = { llama, custom, npu, stt, tts, image } as const satisfies Record<EngineKind, Engine>;
