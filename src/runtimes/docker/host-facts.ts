import { readdir, readlink, realpath, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Container } from "../../api/workload.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";
import type { Daemon } from "./daemon.ts";

/** Facts of this machine that a container's settings depend on. */
export interface HostFacts {
  /** Numeric groups of the device nodes: names do not resolve inside images. */
  readonly deviceGroups: readonly number[];
  /** Directories of a model's files, and those that their links lead to. */
  readonly modelDirectories: readonly string[];
  /** How the daemon provides NVIDIA GPUs. */
  readonly gpuDriver: "cdi" | "nvidia";
}

/**
 * CDI where the daemon is Podman, which has no other way, or has found NVIDIA's devices by it (Docker 28.2 and later);
 * else the runtime hook that `docker run --gpus` uses.
 */
export async function gpuDriver(daemon: Daemon, { gpus }: Container): Promise<HostFacts["gpuDriver"]> {
  if (gpus === undefined) return "nvidia";
  if (await daemon.isPodman()) return "cdi";
  const info = JSON.stringify(await daemon.call((api) => api.info(), "brief"));
  return info.includes('"nvidia.com/gpu=') ? "cdi" : "nvidia";
}

/** Reads the facts that the container needs. Throws BadWorkload for a missing device or file. */
export async function hostFacts(container: Container, gpuDriver: HostFacts["gpuDriver"]): Promise<HostFacts> {
  const groups = new Set<number>();
  for (const device of container.devices) for (const gid of await groupsOf(device)) groups.add(gid);
  const directories = new Set<string>();
  for (const file of container.modelFiles) for (const place of await placesOf(file)) directories.add(place);
  return {
    deviceGroups: [...groups].filter((gid) => gid !== 0).toSorted((a, b) => a - b),
    modelDirectories: withoutNested([...directories]),
    gpuDriver,
  };
}

/** The group of a node, or of every node in a directory such as /dev/dri. */
async function groupsOf(device: string): Promise<readonly number[]> {
  const found = await stat(device).catch(() => undefined);
  if (found === undefined) {
    const message = `the device ${device} does not exist on this machine: load its driver, or change backend or devices`;
    throw new BadWorkload(message);
  }
  if (found.isCharacterDevice() || found.isBlockDevice()) return [found.gid];
  if (!found.isDirectory()) throw new BadWorkload(`${device} is no device`);
  const groups: number[] = [];
  for (const name of await readdir(device)) {
    const node = await stat(join(device, name)).catch(() => undefined);
    if (node?.isCharacterDevice() === true) groups.push(node.gid);
  }
  return groups;
}

/** Every directory on the way from the file to the end of its links: all must exist inside for the path to open. */
async function placesOf(file: string): Promise<readonly string[]> {
  const places: string[] = [];
  let path = file;
  for (let hops = 0; hops < 40; hops++) {
    places.push(dirname(path));
    const target = await readlink(path).catch(() => undefined);
    if (target === undefined) break;
    path = resolve(dirname(path), target);
  }
  const real = await realpath(file).catch(() => undefined);
  if (real === undefined) throw new BadWorkload(`the model file ${file} cannot be read`);
  return [...places, dirname(real)];
}

/** A directory below another needs no mount of its own. */
function withoutNested(directories: readonly string[]): readonly string[] {
  return directories.filter((one) => !directories.some((other) => other !== one && isWithin(one, other))).toSorted();
}
