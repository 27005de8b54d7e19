import { join } from "node:path/posix";
import { countIn, type EvidenceReader } from "./evidence-reader.ts";

/** A limit, with the file that sets it. */
export interface Limit {
  readonly value: number;
  readonly source: string;
}

/**
 * The smallest memory limit of this process's control group and those around it, in bytes; undefined: no limit
 * (https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html).
 */
export async function memoryLimit(reader: EvidenceReader): Promise<Limit | undefined> {
  return await least(reader, "memory", async (directory, isUnified) => {
    const source = join(directory, isUnified ? "memory.max" : "memory.limit_in_bytes");
    // The file without a limit holds `max`, or with version 1 a number above all memory sizes.
    const value = await reader.count(source);
    return value === undefined ? undefined : { value, source };
  });
}

/** The same for processors, in cores; part of a core is a fraction. */
export async function cpuLimit(reader: EvidenceReader): Promise<Limit | undefined> {
  return await least(reader, "cpu", async (directory, isUnified) => {
    const source = join(directory, isUnified ? "cpu.max" : "cpu.cfs_quota_us");
    const text = await reader.text(source);
    const [quota, second] = text?.split(" ") ?? [];
    const period = isUnified ? second : await reader.text(join(directory, "cpu.cfs_period_us"));
    // The file without a quota holds `max`, or -1.
    const parts = [countIn(quota) ?? 0, countIn(period) ?? 0] as const;
    return parts[0] > 0 && parts[1] > 0 ? { value: parts[0] / parts[1], source } : undefined;
  });
}

async function least(
  reader: EvidenceReader,
  controller: string,
  read: (directory: string, isUnified: boolean) => Promise<Limit | undefined>,
): Promise<Limit | undefined> {
  let found: Limit | undefined;
  for (const { directory, isUnified } of await directoriesOf(reader, controller)) {
    const limit = await read(directory, isUnified);
    if (limit !== undefined && limit.value < (found?.value ?? Infinity)) found = limit;
  }
  return found;
}

/** The group's own directory and every directory above it that is visible from within a container. */
async function directoriesOf(
  reader: EvidenceReader,
  controller: string,
): Promise<readonly { directory: string; isUnified: boolean }[]> {
  const mount = "/sys/fs/cgroup";
  for (const line of (await reader.text("/proc/self/cgroup"))?.split("\n") ?? []) {
    const [, controllers = "", ...rest] = line.split(":");
    const isUnified = controllers === "";
    if (isUnified ? !(await hasController(reader, controller)) : !controllers.split(",").includes(controller)) continue;
    const top = isUnified ? mount : join(mount, controller);
    const parts = rest
      .join(":")
      .split("/")
      .filter((part) => part !== "" && part !== "..");
    return parts
      .concat("")
      .map((_, index) => ({ directory: join(top, ...parts.slice(0, parts.length - index)), isUnified }));
  }
  return [];
}

/** Whether version 2 manages this controller: where both versions are mounted, each manages some. */
async function hasController(reader: EvidenceReader, controller: string): Promise<boolean> {
  const controllers = await reader.text("/sys/fs/cgroup/cgroup.controllers");
  return controllers?.split(" ").includes(controller) === true;
}
