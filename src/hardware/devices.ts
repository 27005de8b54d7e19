import type { DeviceNode } from "../api/hardware.ts";
import type { Machine, NodeEntry } from "./machine.ts";
import type { EvidenceReader } from "./evidence-reader.ts";

/** Device files that engines compute with, by directory. */
const wanted: readonly (readonly [directory: string, name: RegExp])[] = [
  ["/dev", /^(?:kfd|nvidiactl|nvidia-uvm|nvidia\d+)$/],
  ["/dev/dri", /^renderD\d+$/],
  ["/dev/accel", /^accel\d+$/],
];

/** The present device files, with their access rights. */
export async function probeDevices(machine: Machine, reader: EvidenceReader): Promise<DeviceNode[]> {
  const groups = groupNames((await reader.text("/etc/group")) ?? "");
  const devices: DeviceNode[] = [];
  for (const [directory, pattern] of wanted) {
    for (const name of await reader.names(directory)) {
      if (!pattern.test(name)) continue;
      const path = `${directory}/${name}`;
      const entry = await reader.node(path);
      if (entry !== undefined) devices.push(deviceOf(path, entry, machine, groups));
    }
  }
  return devices;
}

function deviceOf(path: string, entry: NodeEntry, { user }: Machine, groups: ReadonlyMap<number, string>): DeviceNode {
  const group = groups.get(entry.gid) ?? null;
  const owner = group === null ? `group ${entry.gid}` : `group ${group} (${entry.gid})`;
  const mode = `0${entry.mode.toString(8).padStart(3, "0")}`;
  const isMember = user.groups.includes(entry.gid);
  const why =
    entry.refusal !== "EACCES"
      ? (entry.refusal ?? "")
      : isMember
        ? `mode ${mode}, ${owner}, which it is in`
        : `mode ${mode}: ${owner} may, which it is not in`;
  return {
    path,
    mode,
    uid: entry.uid,
    gid: entry.gid,
    group,
    accessible: entry.refusal === undefined,
    problem: entry.refusal === undefined ? null : `exists, but uid ${user.uid} may not read and write it: ${why}`,
  };
}

/** `render:x:109:` in /etc/group. */
function groupNames(text: string): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  for (const line of text.split("\n")) {
    const [name = "", , gid = ""] = line.split(":");
    if (name !== "" && /^\d+$/.test(gid)) names.set(Number(gid), name);
  }
  return names;
}
