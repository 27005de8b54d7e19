import { readFile } from "node:fs/promises";
import { join } from "node:path/posix";

export interface MemoryLeft {
  readonly totalBytes: number;
  /** Free, or a cache of files that the kernel gives back when it is needed. */
  readonly availableBytes: number;
}

/**
 * The memory of this machine, or of the control group of this process or around it that has the least left
 * (https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html). A group's `memory.current` counts the
 * cache of files that were read: a model that was fetched fills it, and nothing is short. Undefined where /proc cannot be
 * read.
 */
export async function memoryLeft(root = "/"): Promise<MemoryLeft | undefined> {
  const machine = fieldsIn(await textOf(join(root, "proc/meminfo")));
  const [total, available] = [machine.get("MemTotal"), machine.get("MemAvailable")];
  if (total === undefined || available === undefined) return undefined;
  let least: MemoryLeft = { totalBytes: total * 1024, availableBytes: available * 1024 };
  for (const group of await groupsAround(root)) {
    const left = await leftIn(group);
    // A limit above the machine's memory limits nothing.
    if (left === undefined || left.totalBytes >= total * 1024) continue;
    if (left.availableBytes < least.availableBytes) least = left;
  }
  return least;
}

interface ControlGroup {
  readonly directory: string;
  readonly isUnified: boolean;
}

async function leftIn({ directory, isUnified }: ControlGroup): Promise<MemoryLeft | undefined> {
  const read = (name: string): Promise<string> => textOf(join(directory, name));
  // The file of a group without a limit holds `max`, or with version 1 a number above all memory sizes.
  const limit = countOf(await read(isUnified ? "memory.max" : "memory.limit_in_bytes"));
  const used = countOf(await read(isUnified ? "memory.current" : "memory.usage_in_bytes"));
  if (limit === undefined || used === undefined) return undefined;
  const fields = fieldsIn(await read("memory.stat"));
  const part = (name: string): number => fields.get(isUnified ? name : `total_${name}`) ?? 0;
  const cache = Math.min(used, part("inactive_file") + part("active_file"));
  return { totalBytes: limit, availableBytes: Math.max(0, limit - used + cache) };
}

/** The group of this process, and every group around it that is visible from within a container. */
async function groupsAround(root: string): Promise<readonly ControlGroup[]> {
  const mount = join(root, "sys/fs/cgroup");
  const unified = (await textOf(join(mount, "cgroup.controllers"))).split(/\s/).includes("memory");
  for (const line of (await textOf(join(root, "proc/self/cgroup"))).split("\n")) {
    const [, controllers = "", ...rest] = line.split(":");
    const isUnified = controllers === "";
    if (isUnified ? !unified : !controllers.split(",").includes("memory")) continue;
    const top = isUnified ? mount : join(mount, "memory");
    const parts = rest
      .join(":")
      .split("/")
      .filter((part) => part !== "" && part !== "..");
    return [...parts, ""].map((_, above) => ({
      directory: join(top, ...parts.slice(0, parts.length - above)),
      isUnified,
    }));
  }
  return [];
}

/** Lines of a name and a number, as /proc and control groups have them. */
function fieldsIn(text: string): ReadonlyMap<string, number> {
  const lines = text.matchAll(/^(\w+):?\s+(\d+)(?: kB)?$/gm);
  return new Map([...lines].map(([, name = "", value]) => [name, Number(value)]));
}

function countOf(text: string): number | undefined {
  return /^\d+$/.test(text.trim()) ? Number(text) : undefined;
}

/** Empty where the file cannot be read. */
async function textOf(path: string): Promise<string> {
  return await readFile(path, "latin1").catch(() => "");
}
