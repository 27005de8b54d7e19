import type { Compute } from "../../api/compute.ts";
import { isSameStart, nameOfStart } from "../../api/engine-identity.ts";
import type { ConditionClaim } from "../../api/conditions.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { PublishedSlot, SlotStatus } from "../../api/status.ts";
import type { Observed } from "../../api/workload.ts";
import type { Engine, SlotInputs } from "../../engines/engine.ts";
import { gpuBackends, ownGpuVariables } from "../../engines/gpu-use.ts";
import { isSameProcess } from "../../api/process-ref.ts";
import type { SlotInput } from "../plan/input.ts";
import type { SlotMemories } from "../slot-memory.ts";

/** The output of an engine since its start. */
export type FirstOutput = (process: Observed) => Promise<string>;

/** The devices that engines report: read once per process, when it is warm. */
export class ComputeRecords {
  readonly #firstOutput: FirstOutput;
  readonly #memories: Pick<SlotMemories, "of">;

  constructor(firstOutput: FirstOutput, memories: Pick<SlotMemories, "of">) {
    this.#firstOutput = firstOutput;
    this.#memories = memories;
  }

  /** For a process that an earlier operator has read, the published report: its log may be gone by now. */
  async read(
    process: Observed,
    engine: Engine,
    input: SlotInputs,
    before: PublishedSlot | undefined,
  ): Promise<Compute | undefined> {
    if (engine.computeIn === undefined) return undefined;
    const identity = nameOfStart(process.id, process.startedAt);
    const memory = this.#memories.of(process.slot);
    if (memory.compute?.process === identity) return memory.compute.compute;
    const compute = publishedOf(process, before) ?? engine.computeIn(input, await this.#firstOutput(process));
    memory.compute = { process: identity, compute };
    return compute;
  }
}

function publishedOf(seen: Observed, before: PublishedSlot | undefined): Compute | undefined {
  const known = before?.status.processes.find((each) => isSameProcess(each, seen));
  return isSameStart(known, seen) ? before?.status.compute : undefined;
}

/** For status, while the engine runs. */
export function reportOf({ compute, memory }: SlotInput): Pick<SlotStatus, "compute" | "memory"> {
  return { ...(compute === undefined ? {} : { compute }), ...(memory === undefined ? {} : { memory }) };
}

/**
 * The engine computes on another device than the slot declares: reported, since otherwise only its slowness would show
 * it.
 */
export function computeClaims({ spec, compute, backend }: SlotInput): ConditionClaim[] {
  if (spec === undefined || compute === undefined || backend === undefined) return [];
  const claim = gpuBackends.has(backend) ? offGpu(spec, compute, backend) : onGpu(spec, compute, backend);
  return claim === undefined ? [] : [{ type: "Degraded", status: "True", ...claim }];
}

type Explanation = Pick<ConditionClaim, "reason" | "message">;

function offGpu({ model, backend: declared }: SlotSpec, compute: Compute, backend: string): Explanation | undefined {
  const { devices, layersOffloaded = 0, layersTotal } = compute;
  const wanted = Math.min(model.gpuLayers ?? Infinity, layersTotal ?? Infinity);
  const isThere = devices.length > 0 && (layersTotal === undefined || layersOffloaded >= wanted);
  if (isThere || wanted === 0) return undefined;
  const who = declared === "auto" ? `${backend} was chosen` : `the spec asks for ${backend}`;
  const share =
    layersTotal === undefined ? "nothing of the model is" : `${layersOffloaded} of ${layersTotal} layers are`;
  const next =
    devices.length === 0
      ? "does the engine's program see it (berth doctor)?"
      : "the rest computes on the CPU: a smaller context, model or quantisation may fit";
  return { reason: "NotOnGpu", message: `${who}, and ${share} on a GPU; ${next}` };
}

function onGpu(spec: SlotSpec, { buffers = [] }: Compute, backend: string): Explanation | undefined {
  if (backend !== "cpu" || buffers.length === 0) return undefined;
  const variables = ownGpuVariables({ spec });
  const why = variables.length === 0 ? "" : `: env.${variables.join(", env.")} of the manifest says so`;
  const where = buffers.map(({ device }) => device).join(", ");
  return { reason: "OnGpu", message: `the slot is to compute on the CPU, and its engine uses ${where}${why}` };
}
