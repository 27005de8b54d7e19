import type { Derived, SlotInputs } from "./engine.ts";
import { isOnGpu } from "./gpu-use.ts";
import { isServer } from "./llama-program.ts";

/** With more places than this, which of them work decides the speed unless all share one cache. */
const separatePlaces = 16;
const mebibyte = 1024 ** 2;
/** What earlier prompts may take of the host's memory where nobody says it, at most and of what there is. */
const promptCache = { mostBytes: 1024 ** 3, part: 16 } as const;

/** One setting of llama-server's that versions may lack, with every way of a manifest to make it. */
interface Setting {
  readonly words: readonly [flag: string, ...values: string[]];
  readonly aliases: readonly string[];
  readonly variable: string;
  readonly value: string;
}

/**
 * Settings of llama-server that follow from the slot (its README, "Usage"): as flags where the program's help has them,
 * as variables where its version is not known before it runs: in a container, and where a program prints no help.
 * llama-server ends on a flag that it does not know, and ignores such a variable. A setting that a manifest makes by
 * `args` or `env` is left to the manifest.
 */
export function serverSettings(input: SlotInputs): {
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
} {
  if (!isServer(input)) return { flags: [], env: {} };
  const { spec, placement, host } = input;
  const open = settingsOf(input).filter(
    ({ words: [flag], aliases, variable }) =>
      spec.env[variable] === undefined && !spec.args.some((word) => word === flag || aliases.includes(word)),
  );
  const known = placement.runtime === "process" ? host.server?.flags : undefined;
  if (known === undefined) {
    return { flags: [], env: Object.fromEntries(open.map(({ variable, value }) => [variable, value])) };
  }
  return { flags: open.flatMap(({ words }) => (known.has(words[0]) ? words : [])), env: {} };
}

function settingsOf(input: SlotInputs): readonly Setting[] {
  const { spec, placement, host } = input;
  const { contextSize, parallel } = spec.model;
  const cacheMebibytes = String(Math.ceil(promptCacheOf(input).bytes / mebibyte));
  // An image that the manifest names may be of a version whose level 4 holds prompts.
  const hasReport = placement.runtime === "process" ? host.server?.hasTraceLevel === true : spec.image === undefined;
  return [
    ...(isSpillForbidden(input) ? [fit] : []),
    {
      words: ["--cache-ram", cacheMebibytes],
      aliases: ["-cram"],
      variable: "LLAMA_ARG_CACHE_RAM",
      value: cacheMebibytes,
    },
    ...(parallel > separatePlaces ? [unified] : []),
    ...(parallel > separatePlaces && contextSize !== undefined ? [perPlace(String(contextSize))] : []),
    ...(hasReport ? [report] : []),
  ];
}

/** Else what does not fit is moved to the host, where it is ten times slower, and nobody is told. */
const fit: Setting = { words: ["--fit", "off"], aliases: ["-fit"], variable: "LLAMA_ARG_FIT", value: "off" };

const unified: Setting = {
  words: ["--kv-unified"],
  aliases: ["-kvu", "-no-kvu", "--no-kv-unified"],
  variable: "LLAMA_ARG_KV_UNIFIED",
  value: "1",
};

/** One cache for all, and still no request has more than the manifest says. */
function perPlace(tokens: string): Setting {
  const words = ["--kv-unified-per-slot", tokens] as const;
  return { words, aliases: [], variable: "LLAMA_ARG_KV_UNIFIED_PER_SLOT", value: tokens };
}

/** The level at which it tells of devices, layers and buffers. */
const report: Setting = {
  words: ["--log-verbosity", "4"],
  aliases: ["-lv", "--verbosity", "-v", "--verbose", "--log-verbose"],
  variable: "LLAMA_ARG_LOG_VERBOSITY",
  value: "4",
};

/** Whether what does not fit on the GPU keeps the engine from starting. */
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

/** For status: host memory that the engine's buffers do not tell of. */
export function derivedPromptCache(input: SlotInputs): Readonly<Record<string, Derived>> {
  if (!isServer(input) || input.spec.command !== undefined) return {};
  const { bytes, reason } = promptCacheOf(input);
  return { promptCacheBytes: { value: String(bytes), reason } };
}
