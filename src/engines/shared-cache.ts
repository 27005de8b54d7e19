import type { SlotSpec } from "../api/slot.ts";
import type { SlotStatus } from "../api/status.ts";
import { contextFlag } from "./context-size.ts";
import { separatePlaces, unified } from "./llama-settings.ts";

/** The cache that all places of a llama-server have in common. */
export interface SharedCache {
  /** That it holds; undefined: the engine has decided. */
  readonly tokens: number | undefined;
}

/** Undefined: each place has a part of its own. `status`: of the loaded engine. */
export function sharedCache(
  { args, env, model: { parallel, contextSize } }: Pick<SlotSpec, "args" | "env" | "model">,
  status: Pick<SlotStatus, "decisions"> | undefined,
): SharedCache | undefined {
  const sharing = args.findLast((word) => unified.words[0] === word || unified.aliases.includes(word));
  const bySetting = sharing === undefined ? env[unified.variable] : sharing.includes("no-kv") ? "0" : "1";
  const isOff = typeof bySetting === "string" && ["0", "false", "off"].includes(bySetting);
  if (isOff || (bySetting === undefined && parallel <= separatePlaces)) return undefined;
  const at = args.findLastIndex((word) => contextFlag.words.includes(word));
  const whole = Number(at < 0 ? env[contextFlag.variable] : args[at + 1]);
  if (whole > 0) return { tokens: whole };
  const each = contextSize ?? Number(status?.decisions["contextSize"]?.value);
  return { tokens: each > 0 ? each * parallel : undefined };
}
