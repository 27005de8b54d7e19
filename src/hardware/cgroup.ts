import { join } from "node:path/posix";
import { countIn, type Witness } from "./witness.ts";

/** A limit, with the file that sets it. */
export interface Limit {
  readonly value: number;
  readonly source: string;
}

/**
 * The least memory that this process's control group and those around it allow, in bytes; undefined: no limit
 * (https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html).
 */
export async function memoryLimit(witness: Witness): Promise<Limit | undefined> {
  return await least(witness, "memory", async (directory, isUnified) => {
    const source = join(directory, isUnified ? "memory.max" : "memory.limit_in_bytes");
    // Without a limit: `max`, or for version 1 more than a computer can count with.
    const value = await witness.count(source);
    return value === undefined ? undefined : { value, source };
  });
}

/** The same for processors, in cores; a part of one is a fraction. */
export async function cpuLimit(witness: Witness): Promise<Limit | undefined> {
  return await least(witness, "cpu", async (directory, isUnified) => {
    const source = join(directory, isUnified ? "cpu.max" : "cpu.cfs_quota_us");
    const text = await witness.text(source);
    const [quota, second] = text?.split(" ") ?? [];
    const period = isUnified ? second : await witness.text(join(directory, "cpu.cfs_period_us"));
    // Without a quota: `max`, or -1.
    const parts = [countIn(quota) ?? 0, countIn(period) ?? 0] as const;
    return parts[0] > 0 && parts[1] > 0 ? { value: parts[0] / parts[1], source } : undefined;
  });
}

async function least(
  witness: Witness,
  controller: string,
  read: (directory: string, isUnified: boolean) => Promise<Limit | undefined>,
): Promise<Limit | undefined> {
  let found: Limit | undefined;
  for (const { directory, isUnified } of await directoriesOf(witness, controller)) {
    const limit = await read(directory, isUnified);
    if (limit !== undefined && limit.value < (found?.value ?? Infinity)) found = limit;
  }
  return found;
}

/** The group's own directory and every one above it, as far as they can be seen from within a container. */
async function directoriesOf(
  witness: Witness,
  controller: string,
): Promise<readonly { directory: string; isUnified: boolean }[]> {
  const mount = "/sys/fs/cgroup";
  for (const line of (await witness.text("/proc/self/cgroup"))?.split("\n") ?? []) {
    const [, controllers = "", ...rest] = line.split(":");
    const isUnified = controllers === "";
    if (isUnified ? !(await hasController(witness, controller)) : !controllers.split(",").includes(controller))
      continue;
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

/** Version 2 is there for this controller: where both versions are mounted, each has some. */
async function hasController(witness: Witness, controller: string): Promise<boolean> {
  const controllers = await witness.text("/sys/fs/cgroup/cgroup.controllers");
  return controllers?.split(" ").includes(controller) === true;
}
