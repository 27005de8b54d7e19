import type { Container } from "../api/workload.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineRefusal, SlotInputs } from "./engine.ts";
import { imageOf, isEmbeddedImage } from "./container-image.ts";
import { isOnGpu } from "./gpu-use.ts";
import { devicesOfBackend } from "./placement.ts";

/** The needs of an engine beyond the minimum of every container. */
export interface ContainerNeeds {
  /** The engine's port inside the container. */
  readonly port: number;
  /** The engine's image writes to its own files. */
  readonly writesRoot?: boolean;
  /** The engine ignores TERM as a container's first process. */
  readonly needsInit?: boolean;
  /** Files that the engine reads outside the model's record. */
  readonly files?: readonly string[];
}

/** The container of a slot, or why there can be none. */
export function containerOf(
  input: SlotInputs,
  model: ModelRecord | undefined,
  needs: ContainerNeeds,
): Container | EngineRefusal {
  const { spec, placement } = input;
  const image = imageOf(input);
  if (typeof image !== "string") return image;
  const { backend } = placement;
  // A manifest's own command brings its own needs, and the embedded engine has none: only the devices that the manifest
  // names are passed.
  const isOwn = spec.backend === "auto" && (spec.command !== undefined || isEmbeddedImage(image));
  const devices = new Set([...(isOwn ? [] : devicesOfBackend[backend]), ...spec.devices]);
  const requested = spec.resources.gpus ?? (backend === "cuda" && !isOwn ? "all" : undefined);
  // The backend decides what the slot computes on, also on a machine with GPUs.
  const gpus = spec.backend === "cpu" ? undefined : requested;
  const { memoryBytes, cpus } = spec.resources;
  return {
    image,
    replacesEntrypoint: spec.command !== undefined,
    port: needs.port,
    mounts: spec.mounts,
    modelFiles: [...new Set([...filesOf(model), ...(needs.files ?? [])])],
    devices: [...devices],
    ...(gpus === undefined || gpus === 0 ? {} : { gpus }),
    isMemlockUnlimited: backend === "npu" && !isOwn,
    isRootReadOnly: needs.writesRoot !== true && spec.command === undefined,
    hasInit: needs.needsInit === true,
    capabilities: [],
    ...(spec.shmSizeBytes === undefined ? {} : { shmSizeBytes: spec.shmSizeBytes }),
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    ...(cpus === undefined ? {} : { cpus }),
    ...(placement.inCluster === true
      ? {
          pod: {
            backend,
            extended: spec.resources.extended ?? {},
            claims: spec.resources.claims ?? [],
            ...neededBytes(input, model),
            ...(spec.podTemplate === undefined ? {} : { template: spec.podTemplate }),
          },
        }
      : {}),
  };
}

/** A model's weights are in the machine's memory unless a GPU has them. */
function neededBytes(input: SlotInputs, model: ModelRecord | undefined): { readonly memoryBytes?: number } {
  const bytes = model?.memoryBytes ?? (isOnGpu(input) ? undefined : model?.sizeBytes);
  return bytes === undefined || bytes === 0 ? {} : { memoryBytes: bytes };
}

function filesOf(model: ModelRecord | undefined): readonly string[] {
  if (model === undefined) return [];
  return [model.path, ...model.files, model.projectorPath].filter((path) => path !== undefined);
}
