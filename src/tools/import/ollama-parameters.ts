import type { SlotSpecInput } from "../../api/slot.ts";
import type { SlotFields } from "./imported.ts";
import { loadModeOf } from "./llama-line.ts";

/** Parameters that requests to llama-server have under the same or another name (Ollama, docs/modelfile.mdx). */
const inRequest: Readonly<Record<string, string>> = {
  temperature: "temperature",
  top_k: "top_k",
  top_p: "top_p",
  min_p: "min_p",
  typical_p: "typical_p",
  seed: "seed",
  stop: "stop",
  repeat_penalty: "repeat_penalty",
  repeat_last_n: "repeat_last_n",
  presence_penalty: "presence_penalty",
  frequency_penalty: "frequency_penalty",
  mirostat: "mirostat",
  mirostat_eta: "mirostat_eta",
  mirostat_tau: "mirostat_tau",
  num_keep: "n_keep",
};

interface Parameters {
  /** Fields of requests that the client does not send. */
  readonly set: Readonly<Record<string, unknown>>;
  readonly args: readonly string[];
  readonly fields: Pick<SlotFields, "model" | "env">;
}

/** The parameters of a Modelfile as fields of a slot; `note` takes those that have no like. */
export function requestDefaults(
  parameters: Readonly<Record<string, unknown>>,
  note: (key: string, why: string) => void,
): Parameters {
  const set: Record<string, unknown> = {};
  const args: string[] = [];
  let model: NonNullable<SlotSpecInput["model"]> = {};
  let loadMode: string | undefined;
  for (const [key, value] of Object.entries(parameters)) {
    const field = inRequest[key];
    const count = typeof value === "number" && Number.isInteger(value) && value > 0 ? value : undefined;
    if (field !== undefined) set[field] = value;
    else if (key === "num_predict") {
      // Below 0 it is no limit.
      if (count !== undefined) set["max_tokens"] = count;
    } else if (key === "num_ctx" && count !== undefined) model = { ...model, contextSize: count };
    else if (key === "num_thread" && count !== undefined) model = { ...model, threads: count };
    else if (key === "num_batch" && count !== undefined) args.push("--batch-size", String(count));
    else if (key === "num_gpu" && typeof value === "number") model = { ...model, ...layersOf(value) };
    else if (key === "use_mmap") loadMode = value === false ? "none" : undefined;
    else note(key, "llama-server has no such parameter");
  }
  return { set, args, fields: { model, ...loadModeOf(loadMode) } };
}

function layersOf(layers: number): NonNullable<SlotSpecInput["model"]> {
  if (layers < 0 || layers >= 99) return {};
  return layers === 0 ? { gpuLayers: 0 } : { gpuLayers: layers, spill: "allow" };
}
