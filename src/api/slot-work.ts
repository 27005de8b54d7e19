import type { ModelRecord } from "./model.ts";
import { isBuiltin, type BuiltinSlot } from "./names.ts";
import { replaceableEngines, type SlotSpec } from "./slot.ts";

type ModelCapability = ModelRecord["capabilities"][number];

/** The capabilities of which a model for each built-in slot needs one, and the verb for messages. */
const workOfBuiltin = {
  primary: { needs: ["chat"], word: "chats" },
  // A chat model embeds too.
  embed: { needs: ["embed", "rerank", "chat"], word: "embeds" },
  stt: { needs: ["stt"], word: "transcribes" },
  tts: { needs: ["tts"], word: "speaks" },
  img: { needs: ["image"], word: "draws" },
} as const satisfies Record<BuiltinSlot, { needs: readonly ModelCapability[]; word: string }>;

/**
 * Why a model does not fit a built-in slot, which keeps its kind of work: clients call it by that name for that work
 * alone. Undefined for a model that fits, for a model of unknown abilities, and where a program of the manifest's own
 * or `capabilities` declares the work.
 */
export function wrongWork(
  slot: string,
  { engine, command, capabilities }: Pick<SlotSpec, "engine" | "command" | "capabilities">,
  model: Pick<ModelRecord, "ref" | "capabilities"> | undefined,
): string | undefined {
  if (!isBuiltin(slot) || model === undefined || model.capabilities.length === 0) return undefined;
  const isOwnProgram = engine === "custom" || (command !== undefined && replaceableEngines.includes(engine));
  if (isOwnProgram || capabilities !== undefined) return undefined;
  const { needs, word } = workOfBuiltin[slot];
  if (model.capabilities.some((capability) => needs.some((need) => need === capability))) return undefined;
  return `slot ${slot} ${word}, and ${model.ref} can only ${model.capabilities.join(" and ")}: give it another model, or this model another slot`;
}
