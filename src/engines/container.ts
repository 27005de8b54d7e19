import type { Container } from "../api/workload.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineRefusal, SlotInputs } from "./engine.ts";
import { imageOf, isEmbeddedImage } from "./container-image.ts";
import { devicesOfBackend } from "./placement.ts";

/** What an engine needs of its container beyond the least that any gets. */
export interface ContainerNeeds {
  /** Where it listens inside. */
  readonly port: number;
  /** Its image writes to its own files. */
  readonly writesRoot?: boolean;
  /** It does not end at TERM as a container's first process. */
  readonly needsInit?: boolean;
  /** Files outside the model's record. */
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
  // A command of the manifest's own brings its own needs, and the embedded engine has none: only what the manifest
  // names is handed in.
  const isOwn = spec.backend === "auto" && (spec.command !== undefined || isEmbeddedImage(image));
  const devices = new Set([...(isOwn ? [] : devicesOfBackend[backend]), ...spec.devices]);
  const asked = spec.resources.gpus ?? (backend === "cuda" && !isOwn ? "all" : undefined);
  // The backend says what the slot computes on, whatever it could have had.
  const gpus = spec.backend === "cpu" ? undefined : asked;
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
  };
}

function filesOf(model: ModelRecord | undefined): readonly string[] {
  if (model === undefined) return [];
  return [model.path, ...model.files, model.projectorPath].filter((path) => path !== undefined);
}
