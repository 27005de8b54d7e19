import type { ModelRecord } from "./model.ts";
import { isBuiltin, type BuiltinSlot } from "./names.ts";
import { replaceableEngines, type SlotSpec } from "./slot.ts";

type ModelCapability = ModelRecord["capabilities"][number];

/** What a model must be able to do for each built-in slot, one of them; how that is called. */
const workOfBuiltin = {
  primary: { needs: ["chat"], word: "chats" },
  // A chat model embeds too.
  embed: { needs: ["embed", "rerank", "chat"], word: "embeds" },
  stt: { needs: ["stt"], word: "transcribes" },
  tts: { needs: ["tts"], word: "speaks" },
  img: { needs: ["image"], word: "draws" },
} as const satisfies Record<BuiltinSlot, { needs: readonly ModelCapability[]; word: string }>;

/**
 * Why a model is nothing for a built-in slot, which keeps its kind of work: clients ask it by that name for that work alone.
 * Undefined where it is fit, where nothing is known of what the model can do, and where a program of the manifest's own or
 * `capabilities` says what the slot does.
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
