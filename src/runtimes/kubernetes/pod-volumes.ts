import type { V1Volume, V1VolumeMount } from "@kubernetes/client-node";
import type { Container } from "../../api/workload.ts";
import type { Written } from "../../kubernetes/written.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";

/** The volume that holds the models: the operator's own models directory, at the same path in every engine. */
export interface ModelVolume {
  readonly directory: string;
  readonly source: { readonly claim: string } | { readonly path: string };
}

export interface PodVolumes {
  readonly volumes: readonly Written<V1Volume>[];
  /** The volumes that Berth adds by itself: all but those of the manifest's mounts. */
  readonly own: readonly Written<V1Volume>[];
  readonly mounts: readonly Written<V1VolumeMount>[];
}

/**
 * Models read-only at the operator's own path, so that flags and links mean the same; the manifest's mounts and device
 * files from the node; `/tmp` and, where asked for, `/dev/shm` in the Pod. Throws BadWorkload, naming the file, where a
 * model is outside of every volume.
 */
export function volumesOf(
  { modelFiles, mounts, shmSizeBytes }: Container,
  devices: readonly string[],
  models: ModelVolume | undefined,
): PodVolumes {
  const volumes: Written<V1Volume>[] = [];
  const mounted: Written<V1VolumeMount>[] = [];
  const targets = new Set(mounts.map(({ target }) => target));
  const add = (
    name: string,
    source: Omit<Written<V1Volume>, "name">,
    mountPath: string,
    options: { readonly readOnly?: true } = {},
  ): void => {
    volumes.push({ name, ...source });
    mounted.push({ name, mountPath, ...options });
  };
  if (!targets.has("/tmp")) add("tmp", { emptyDir: {} }, "/tmp");
  if (shmSizeBytes !== undefined && !targets.has("/dev/shm"))
    add("shm", { emptyDir: { medium: "Memory", sizeLimit: String(shmSizeBytes) } }, "/dev/shm");
  const outside = modelFiles.filter((file) => !mounts.some(({ target }) => isWithin(file, target)));
  if (outside.length > 0) {
    const [stray] = outside.filter((file) => models === undefined || !isWithin(file, models.directory));
    if (stray !== undefined || models === undefined) throw new BadWorkload(notThere(stray ?? "", models));
    const { directory, source } = models;
    if ("claim" in source) {
      const claim = { persistentVolumeClaim: { claimName: source.claim } };
      add("models", claim, directory, { readOnly: true });
    } else add("models", { hostPath: { path: source.path, type: "Directory" } }, directory, { readOnly: true });
  }
  const first = volumes.length;
  for (const [index, { source, target, readOnly }] of mounts.entries())
    add(`mount-${index}`, { hostPath: { path: source } }, target, readOnly ? { readOnly: true } : {});
  for (const [index, path] of devices.entries()) add(`device-${index}`, { hostPath: { path } }, path);
  return { volumes, own: volumes.toSpliced(first, mounts.length), mounts: mounted };
}

function notThere(file: string, models: ModelVolume | undefined): string {
  if (models === undefined)
    return "no volume holds the models: set SVC_POD_MODELS=claim:NAME, or path:/DIRECTORY for a directory of the node";
  return (
    `the model file ${file} is not in ${models.directory}, the only directory of models that Pods see: ` +
    "move it there, or mount its directory with the slot's mounts"
  );
}
