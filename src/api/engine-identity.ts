import type { Observed, ProcessStatus } from "./workload.ts";

/** The field that names an engine within its runtime: a process id, a container, a Pod. */
export type IdentityField = "pid" | "containerId" | "podName";

type Named = Pick<ProcessStatus, IdentityField>;

/**
 * Whether a boot of the operator's machine ends the engines that have this field: a Pod runs on a machine of its cluster. No
 * trait of a runtime, because a gateway needs it too and knows no runtime.
 */
export const endsWithBoot: Readonly<Record<IdentityField, boolean>> = { pid: true, containerId: true, podName: false };
const identityFields = ["pid", "containerId", "podName"] as const satisfies readonly IdentityField[];

/** Whether a published process is the observed process, started once or several times since. */
export function hasSameId(known: Named | undefined, { id }: Pick<Observed, "id">): boolean {
  if (known === undefined) return false;
  if ("pid" in id) return known.pid === id.pid;
  return "containerId" in id ? known.containerId === id.containerId : known.podName === id.podName;
}

/** Whether a published process is the observed process, without a start since. */
export function isSameStart(
  known: (Named & Pick<ProcessStatus, "startedAt">) | undefined,
  seen: Pick<Observed, "id" | "startedAt">,
): boolean {
  return hasSameId(known, seen) && (known?.startedAt ?? seen.startedAt.toISOString()) === seen.startedAt.toISOString();
}

/** Names one start of one engine: the next start of it, and another engine in its place, have other names. */
export function nameOfStart(id: Observed["id"] | undefined, startedAt: Date | string | undefined): string {
  const time = startedAt instanceof Date ? startedAt.toISOString() : (startedAt ?? "");
  return `${id === undefined ? "" : JSON.stringify(id)} ${time}`;
}

/** Whether the engine may run on after a boot of its operator's machine. */
export function outlivesBoot(process: Named): boolean {
  return identityFields.some((field) => process[field] !== undefined && !endsWithBoot[field]);
}

/** As an observation names the engine; undefined: it was published without a name. */
export function publishedId({ pid, containerId, podName }: Named): Observed["id"] | undefined {
  if (pid !== undefined) return { pid };
  if (containerId !== undefined) return { containerId };
  return podName === undefined ? undefined : { podName };
}
