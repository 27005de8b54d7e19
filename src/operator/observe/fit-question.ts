import type { Gpu, HardwareFacts } from "../../api/hardware.ts";
import type { Workload } from "../../api/workload.ts";
import { isRefusal, type SlotInputs } from "../../engines/engine.ts";
import { gpuBackends, ownGpuVariables } from "../../engines/gpu-use.ts";
import { isServer } from "../../engines/llama-program.ts";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { gpuBudget, hostBudget, type Budget } from "../../models/fit/budget.ts";
import type { Beside } from "../../models/fit/need.ts";
import type { GpuShare } from "../../models/fit/settings.ts";
import type { SlotInput } from "../plan/input.ts";

const mebibyte = 1024 ** 2;
/**
 * Programs with their libraries, and their own tables of a model's tokens, as measured on real weights (docs/hardware.md):
 * llama-server on a CPU and with CUDA's, and the embedded engine, whose library reads the vocabulary too.
 */
const programs = {
  server: { bytes: 64 * mebibyte, bytesPerToken: 160 },
  cuda: { bytes: 500 * mebibyte, bytesPerToken: 160 },
  embedded: { bytes: 190 * mebibyte, bytesPerToken: 800 },
} as const;
/** The default of llama-server (its README, `--cache-ram`). */
const defaultPromptCacheMib = 8192;
/** Flags with a value that do not change the memory. */
const immaterial: ReadonlySet<string> = new Set(["--host", "--port", "--alias", "--threads", "-t"]);

/** One process of a slot, as it is launched. */
export interface LaunchedModel {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly files: readonly string[];
  readonly fingerprint: string;
  readonly projector: string | undefined;
  /** The tokens that the embedded engine computes at once, at most; undefined: llama-server, by its launch line. */
  readonly batchTokens: number | undefined;
}

/** The models with their launch lines and devices: everything that their memory follows from. */
export interface FitQuestion {
  /** Equal for equal models, settings and engines. */
  readonly key: string;
  /** The processes of llama.cpp; empty where only declared and measured figures exist. */
  readonly processes: readonly LaunchedModel[];
  readonly gpus: readonly GpuShare[];
  readonly budgets: readonly Budget[];
  /** Without the tables of tokens. */
  readonly beside: Beside;
  /** The size of the program's tables for each token of a vocabulary. */
  readonly bytesPerToken: number;
  /** The embedded engine's own limit of the context without a setting. */
  readonly defaultContext: number | undefined;
  readonly program: string | undefined;
  /** The figures that the model declares. */
  readonly declared: { readonly memoryBytes: number | undefined; readonly gpuBytes: number | undefined };
  /** The machine's memory that the manifest of the slot reserves for all its processes. */
  readonly reservedBytes: number | undefined;
}

/** The fit question of a start of these workloads. `stamp`: the identity of the engine's program, beyond its path. */
export function fitQuestion(
  workloads: SlotInput["workloads"],
  input: SlotInputs,
  hardware: Pick<HardwareFacts, "memory" | "gpus">,
  stamp: string,
): FitQuestion | undefined {
  if (isRefusal(workloads) || workloads.length === 0) return undefined;
  const { spec, model, placement, host } = input;
  const isOurs = spec.engine === "llama" && spec.command === undefined;
  const isEmbedded = isOurs && !isServer(input);
  const processes = isOurs ? workloads.map((workload) => launched(workload, input, isEmbedded)) : [];
  const { gpus, budgets } = devicesFor(input, hardware);
  // The embedded engine keeps none, nor does a llama-server of before it had the flag.
  const flags = placement.runs === "program" ? host.server?.flags : undefined;
  const keepsPrompts = !isEmbedded && (flags === undefined || flags.has("--cache-ram"));
  const cached = keepsPrompts ? processes.reduce((sum, process) => sum + promptCache(process), 0) : 0;
  const program = gpus.length > 0 ? programs.cuda : isEmbedded ? programs.embedded : programs.server;
  return {
    key: sha256(
      canonicalJson({
        processes: processes.map(({ words, env, fingerprint }) => ({ words: material(words), env, fingerprint })),
        ...(isOurs ? {} : { hashes: workloads.map(({ hash }) => hash) }),
        images: workloads.map(({ container }) => container?.image),
        gpus,
        stamp,
      }),
    ),
    processes,
    gpus,
    budgets,
    beside: { processBytes: program.bytes * Math.max(1, processes.length), promptCacheBytes: cached },
    bytesPerToken: program.bytesPerToken,
    defaultContext: isEmbedded ? 4096 : undefined,
    program: isOurs && !isEmbedded && placement.runs === "program" ? workloads[0]?.command[0] : undefined,
    declared: { memoryBytes: model?.memoryBytes, gpuBytes: model?.minVramBytes },
    reservedBytes: spec.resources.memoryBytes === undefined ? undefined : spec.resources.memoryBytes * workloads.length,
  };
}

function launched({ command, env }: Workload, { model, rerankModel }: SlotInputs, isEmbedded: boolean): LaunchedModel {
  const words = command.slice(1);
  const after = (flag: string): string | undefined => words[words.indexOf(flag) + 1];
  const path = words.includes("--model") ? after("--model") : undefined;
  const record = [model, rerankModel].find((known) => known?.path === path);
  const plain = Object.entries(env).flatMap(([name, value]) =>
    typeof value === "string" && /^(?:LLAMA_ARG_|GGML_)|VISIBLE_DEVICES$/.test(name) ? [[name, value] as const] : [],
  );
  return {
    words,
    env: Object.fromEntries(plain),
    files: record?.files ?? [],
    fingerprint: record?.fingerprint ?? "",
    projector: words.includes("--mmproj") ? after("--mmproj") : undefined,
    batchTokens: isEmbedded ? embeddedBatch(words, record?.pooling) : undefined,
  };
}

/** The batch of the embedded engine (engines/src): the whole text, where its vector is not that of the last token. */
function embeddedBatch(words: readonly string[], pooling: string | undefined): number {
  if (words.includes("--jinja")) return 256;
  return pooling === "last" ? 512 : Infinity;
}

function material(words: readonly string[]): readonly string[] {
  return words.filter((word, index) => !immaterial.has(word) && !immaterial.has(words[index - 1] ?? ""));
}

function promptCache({ words, env }: LaunchedModel): number {
  const at = words.findLastIndex((word) => word === "--cache-ram" || word === "-cram");
  const said = Number((at < 0 ? env["LLAMA_ARG_CACHE_RAM"] : words[at + 1]) ?? defaultPromptCacheMib);
  return Number.isFinite(said) && said > 0 ? said * mebibyte : 0;
}

const enginePrefixes: Readonly<Record<string, RegExp>> = { cuda: /^CUDA\d/, rocm: /^ROCm\d/, vulkan: /^Vulkan\d/ };

/**
 * The GPUs that the engine will see, by its own names where its program listed them, and the memory of every device.
 */
function devicesFor(
  { spec, placement, host }: SlotInputs,
  { memory, gpus }: Pick<HardwareFacts, "memory" | "gpus">,
): Pick<FitQuestion, "gpus" | "budgets"> {
  const { backend, runs } = placement;
  // The machine that the engine comes to is chosen by what the manifest asks for.
  if (placement.isElsewhere === true) return { gpus: [], budgets: [] };
  // A container is not in the operator's control group.
  const machine = hostBudget(
    runs === "program" ? memory : { ...memory, usable_bytes: memory.total_bytes, limit_bytes: null },
  );
  const hosts = machine === undefined ? [] : [machine];
  if (!isGpuBackend(backend)) return { gpus: [], budgets: hosts };
  const own = gpus.filter((gpu) => gpu.backends.includes(backend));
  const listed =
    runs === "program" ? (host.server?.devices ?? []).filter(({ id }) => enginePrefixes[backend]?.test(id)) : [];
  const [only] = own;
  // The engine's number of a GPU is unknown where there are several, or where the manifest chooses.
  const isPlain = own.length === 1 && listed.length <= 1 && ownGpuVariables({ spec }).length === 0;
  if (only !== undefined && isPlain) {
    const id = listed[0]?.id ?? only.id;
    return { gpus: [{ id, share: 1, backend }], budgets: [...budgetOf(only, memory, id), ...hosts] };
  }
  const seen = listed.length > 0 ? listed : own.map(({ id, memory_bytes: bytes }) => ({ id, totalBytes: bytes ?? 0 }));
  const reason = "its memory, as the engine's program tells it";
  return {
    gpus: seen.map(({ id, totalBytes }) => ({ id, share: Math.max(1, totalBytes), backend })),
    budgets: [...listed.map(({ id, totalBytes }) => ({ id, kind: "discrete" as const, totalBytes, reason })), ...hosts],
  };
}

function isGpuBackend(backend: string): backend is GpuShare["backend"] {
  return gpuBackends.has(backend);
}

function budgetOf(gpu: Gpu, memory: HardwareFacts["memory"], id: string): readonly Budget[] {
  const found = gpuBudget(gpu, memory);
  return found === undefined ? [] : [{ ...found, id }];
}
