import type { Derived, SlotInputs } from "./engine.ts";
import { isOnGpu } from "./gpu-use.ts";
import { modes, type Mode } from "./llama-mode.ts";
import { isServer } from "./llama-program.ts";

/** With more places than this, the speed depends on which of them work, unless all share one cache. */
export const separatePlaces = 16;
const mebibyte = 1024 ** 2;
/** The default limit of host memory for earlier prompts: an absolute one, and a part of the memory. */
const promptCache = { mostBytes: 1024 ** 3, part: 16 } as const;

/** One setting of llama-server that versions may lack, with every way in which a manifest can set it. */
interface Setting {
  readonly words: readonly [flag: string, ...values: string[]];
  readonly aliases: readonly string[];
  readonly variable: string;
  readonly value: string;
}

/**
 * Settings of llama-server that follow from the slot (its README, "Usage"): as flags where the program's help has them,
 * as variables where its version is unknown before it runs: in a container, and where a program prints no help.
 * llama-server ends on an unknown flag, and ignores an unknown variable. A setting in the manifest's `args` or `env` is
 * left to the manifest.
 */
export function serverSettings(
  input: SlotInputs,
  use: LaunchUse,
): {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
} {
  if (!isServer(input)) return { flags: [], env: {} };
  const { spec, placement, host } = input;
  const open = settingsOf(input, use).filter(
    ({ words: [flag], aliases, variable }) =>
      spec.env[variable] === undefined && !spec.args.some((word) => word === flag || aliases.includes(word)),
  );
  const known = placement.runs === "program" ? host.server?.flags : undefined;
  if (known === undefined) {
    return { flags: [], env: Object.fromEntries(open.map(({ variable, value }) => [variable, value])) };
  }
  return { flags: open.flatMap(({ words }) => (known.has(words[0]) ? words : [])), env: {} };
}

/** The work of one process of a slot. */
interface LaunchUse {
  readonly mode: Mode;
  readonly projector: string | undefined;
  /** The longest text that must be computed at once, in tokens; undefined: a text may be computed in parts. */
  readonly wholeTokens: number | undefined;
}

function settingsOf(input: SlotInputs, use: LaunchUse): readonly Setting[] {
  const { spec, placement, host } = input;
  const { contextSize, parallel } = spec.model;
  // Only chats and completions leave a prompt that is kept.
  const cacheMebibytes = String(use.mode === "chat" ? Math.ceil(promptCacheOf(input).bytes / mebibyte) : 0);
  // An image that the manifest names may be of a version whose level 4 holds prompts.
  const hasReport = placement.runs === "program" ? host.server?.hasTraceLevel === true : spec.image === undefined;
  return [
    ...(isSpillForbidden(input) ? [fit] : []),
    // The tokens of an image are computed in one batch, however many they are.
    ...(!isOnGpu(input) && use.mode === "chat" && use.projector === undefined ? [batch(smallBatch)] : []),
    ...(use.wholeTokens === undefined ? [] : wholeBatch(Math.min(use.wholeTokens, longestWhole))),
    {
      words: ["--cache-ram", cacheMebibytes],
      aliases: ["-cram"],
      variable: "LLAMA_ARG_CACHE_RAM",
      value: cacheMebibytes,
    },
    ...(sharesCache(parallel) ? [unified] : []),
    ...(sharesCache(parallel) && contextSize !== undefined ? [perPlace(String(contextSize))] : []),
    ...(hasReport ? [report] : []),
  ];
}

/** Whether all places of a slot share one cache. */
export function sharesCache(parallel: number): boolean {
  return parallel > separatePlaces;
}

/** Without it llama.cpp moves layers that do not fit to the host, which is ten times slower, without a message. */
const fit: Setting = { words: ["--fit", "off"], aliases: ["-fit"], variable: "LLAMA_ARG_FIT", value: "off" };

/**
 * llama-server looks between two batches whether a client has left. A processor takes half a minute for the 2048 tokens of
 * llama.cpp's own default, and computes as many tokens per second in this size.
 */
const smallBatch = 256;
/** The longest text of the known embedding models of which every token counts; work buffers grow with this number. */
const longestWhole = 8192;

function batch(tokens: number): Setting {
  const value = String(tokens);
  return { words: ["--batch-size", value], aliases: ["-b"], variable: "LLAMA_ARG_BATCH", value };
}

/** Without it llama-server answers 500 for a text of more than 512 tokens, llama.cpp's own default. */
function wholeBatch(tokens: number): readonly Setting[] {
  const value = String(tokens);
  return [batch(tokens), { words: ["--ubatch-size", value], aliases: ["-ub"], variable: "LLAMA_ARG_UBATCH", value }];
}

export const unified: Setting = {
  words: ["--kv-unified"],
  aliases: ["-kvu", "-no-kvu", "--no-kv-unified"],
  variable: "LLAMA_ARG_KV_UNIFIED",
  value: "1",
};

/** One cache for all places, while no request gets more than the manifest's size. */
function perPlace(tokens: string): Setting {
  const words = ["--kv-unified-per-slot", tokens] as const;
  return { words, aliases: [], variable: "LLAMA_ARG_KV_UNIFIED_PER_SLOT", value: tokens };
}

/** The log level with the lines about devices, layers and buffers. */
const report: Setting = {
  words: ["--log-verbosity", "4"],
  aliases: ["-lv", "--verbosity", "-v", "--verbose", "--log-verbose"],
  variable: "LLAMA_ARG_LOG_VERBOSITY",
  value: "4",
};

/** Whether a model that does not fit on the GPU keeps the engine from starting. */
export function isSpillForbidden(input: SlotInputs): boolean {
  return (input.spec.model.spill ?? "forbid") === "forbid" && isOnGpu(input);
}

function promptCacheOf({ spec, placement }: SlotInputs): { readonly bytes: number; readonly reason: string } {
  const { promptCacheBytes } = spec.model;
  if (promptCacheBytes !== undefined) return { bytes: promptCacheBytes, reason: "the spec" };
  const host = Math.min(placement.memory?.hostBytes ?? Infinity, spec.resources.memoryBytes ?? Infinity);
  const share = Math.floor(host / promptCache.part / mebibyte) * mebibyte;
  return share < promptCache.mostBytes
    ? { bytes: share, reason: "a sixteenth of the memory" }
    : { bytes: promptCache.mostBytes, reason: "what is enough for a few long prompts" };
}

/** For status: host memory that the engine's report of buffers does not include. */
export function derivedPromptCache(input: SlotInputs): Readonly<Record<string, Derived>> {
  if (!isServer(input) || input.spec.command !== undefined || modes(input).get("main") !== "chat") return {};
  const { bytes, reason } = promptCacheOf(input);
  return { promptCacheBytes: { value: String(bytes), reason } };
}
