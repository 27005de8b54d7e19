import type { CatalogEntry } from "../../api/catalog.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import { byteText } from "../../api/byte-text.ts";
import { gpuBudget, hostBudget, type Budget } from "./budget.ts";
import { catalogModelShape } from "./catalog-shape.ts";
import { estimate } from "./estimate.ts";
import { declaredRequirement, requirementOf } from "./need.ts";
import { serverDefaults, type FitSettings, type GpuShare } from "./settings.ts";
import type { ModelShape } from "./shape.ts";
import { judge, type Verdict } from "./verdict.ts";

/** Whether a machine with nothing else on it can hold a model of the catalogue. */
export interface HostFit {
  readonly verdict: "fits" | "fits_with" | "does_not_fit" | "unknown";
  readonly message: string;
  readonly needBytes: number | undefined;
  readonly budgetBytes: number | undefined;
  /** The settings with which the model fits; absent: no special setting is needed, or none helps. */
  readonly settings?: { readonly contextSize?: number; readonly gpuLayers?: number };
  /** The facts from which the result follows. */
  readonly inputs: readonly string[];
}

/** The contexts that are tried, largest first. A context below the last one is of no use for chat. */
const contexts = [32_768, 16_384, 8192, 4096, 2048] as const;
/** A manifest can limit the prompt cache of an engine, so the smallest prompt cache counts here. */
const beside = { processBytes: 64 * 1024 ** 2, promptCacheBytes: 0 } as const;

/** `known`: the shape from the model's own header, if its files are here. `backend`: the backend of the engine. */
export function hostFit(
  { spec, catalog }: CatalogEntry,
  known: ModelShape | undefined,
  hardware: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): HostFit {
  const { gpus, budgets, device } = deviceFor(hardware, backend);
  const about = spec.sizeBytes ?? catalog.aboutBytes;
  const shape =
    known ?? (catalog.shape === undefined ? undefined : catalogModelShape(catalog.shape, about, spec.contextLength));
  const inputs = [
    device,
    known === undefined ? `a size of about ${byteText(about)}, by the catalogue` : "the header of the model's file",
  ];
  if (shape !== undefined) return byShape(shape, catalog, gpus, budgets, inputs);
  return byDeclaration(spec, gpus.length > 0 ? budgets : anyGpu(hardware, budgets), inputs);
}

function byDeclaration(
  { memoryBytes, minVramBytes }: CatalogEntry["spec"],
  budgets: readonly Budget[],
  inputs: readonly string[],
): HostFit {
  const id = budgets.find(({ kind }) => kind !== "host")?.id;
  if (minVramBytes !== undefined && id === undefined) {
    const message = `needs a GPU with ${byteText(minVramBytes)}; this machine has none that an engine could use`;
    return { verdict: "does_not_fit", message, needBytes: minVramBytes, budgetBytes: 0, inputs };
  }
  const declared = declaredRequirement({ memoryBytes, gpuBytes: minVramBytes }, id);
  if (declared === undefined) {
    const message = "the catalogue does not know what it needs; the first start measures it";
    return { verdict: "unknown", message, needBytes: undefined, budgetBytes: undefined, inputs };
  }
  return fitOf(judge(declared, budgets.map(withoutFree)), [...inputs, "the memory that the catalogue says it needs"]);
}

function byShape(
  shape: ModelShape,
  { engine }: CatalogEntry["catalog"],
  gpus: readonly GpuShare[],
  budgets: readonly Budget[],
  inputs: readonly string[],
): HostFit {
  const totals = budgets.map(withoutFree);
  const longest = shape.contextLength ?? 4096;
  const wanted = [...new Set(contexts.map((tokens) => Math.min(tokens, longest)))];
  const judged = (contextTokens: number, gpuLayers?: number): Verdict => {
    const settings: FitSettings = {
      ...serverDefaults,
      contextTokens,
      places: 1,
      gpus,
      isEmbedding: !shape.hasCache,
      ...(gpuLayers === undefined ? {} : { gpuLayers }),
    };
    return judge(requirementOf(estimate(shape, settings), beside, "header"), totals);
  };
  const [first = longest] = wanted;
  const sources = [...inputs, `${engine}, one request at a time`];
  for (const contextTokens of wanted) {
    const verdict = judged(contextTokens);
    const isWhole = contextTokens === first;
    if (verdict.kind === "fits") {
      const found = fitOf(verdict, [...sources, `a context of ${contextTokens} tokens`]);
      return isWhole ? found : { ...found, verdict: "fits_with", settings: { contextSize: contextTokens } };
    }
    if (verdict.kind === "unknown") return fitOf(verdict, sources);
  }
  const least = wanted.at(-1) ?? longest;
  for (let gpuLayers = gpus.length === 0 ? 0 : shape.layers.length; gpuLayers > 0; gpuLayers--) {
    const verdict = judged(least, gpuLayers);
    if (verdict.kind !== "fits") continue;
    const found = fitOf(verdict, [
      ...sources,
      `${gpuLayers} of ${shape.layers.length + 1} layers on the GPU, which is slower`,
    ]);
    return { ...found, verdict: "fits_with", settings: { contextSize: least, gpuLayers } };
  }
  return fitOf(judged(least), [...sources, `a context of ${least} tokens`]);
}

function fitOf({ kind, message, needBytes, budgetBytes }: Verdict, inputs: readonly string[]): HostFit {
  const verdict = kind === "busy" ? "does_not_fit" : kind;
  const lack =
    budgetBytes === undefined || verdict !== "does_not_fit" ? "" : `: ${byteText(needBytes - budgetBytes)} too much`;
  return { verdict, message: `${message}${lack}`, needBytes: Math.round(needBytes), budgetBytes, inputs };
}

/** The GPU with the most memory of those that the backend computes on, and the machine's own memory. */
export function deviceFor(
  { memory, gpus }: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): { readonly gpus: readonly GpuShare[]; readonly budgets: readonly Budget[]; readonly device: string } {
  const machine = hostBudget(memory);
  const hosts = machine === undefined ? [] : [machine];
  const onHost = `the processor, with ${machine === undefined ? "an unknown amount of memory" : byteText(machine.totalBytes)}`;
  if (backend !== "cuda" && backend !== "rocm" && backend !== "vulkan")
    return { gpus: [], budgets: hosts, device: onHost };
  const own = gpus.filter((gpu) => gpu.backends.includes(backend));
  const [best] = own
    .flatMap((gpu) => gpuBudget(gpu, memory) ?? [])
    .toSorted((one, other) => other.totalBytes - one.totalBytes);
  const id = best?.id ?? own[0]?.id;
  if (id === undefined) return { gpus: [], budgets: hosts, device: onHost };
  const size = best === undefined ? "an unknown amount of memory" : `${byteText(best.totalBytes)}, ${best.reason}`;
  return {
    gpus: [{ id, share: 1, backend }],
    budgets: [...(best === undefined ? [] : [best]), ...hosts],
    device: `${backend} on ${id}, with ${size}`,
  };
}

/** An image may contain another backend than the suggested one. */
function anyGpu(hardware: Pick<HardwareFacts, "memory" | "gpus">, otherwise: readonly Budget[]): readonly Budget[] {
  const [backend] = hardware.gpus.flatMap(({ backends }) => backends);
  return backend === undefined ? otherwise : deviceFor(hardware, backend).budgets;
}

/** Other programs may free memory, so only the total memory of a device counts here. */
export function withoutFree({ freeBytes: _now, ...budget }: Budget): Budget {
  return budget;
}
