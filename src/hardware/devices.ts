import type { DeviceNode } from "../api/hardware.ts";
import type { Machine, NodeLook } from "./machine.ts";
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
      const look = await reader.node(path);
      if (look !== undefined) devices.push(deviceOf(path, look, machine, groups));
    }
  }
  return devices;
}

function deviceOf(path: string, look: NodeLook, { user }: Machine, groups: ReadonlyMap<number, string>): DeviceNode {
  const group = groups.get(look.gid) ?? null;
  const owner = group === null ? `group ${look.gid}` : `group ${group} (${look.gid})`;
  const mode = `0${look.mode.toString(8).padStart(3, "0")}`;
  const isMember = user.groups.includes(look.gid);
  const why =
    look.refusal !== "EACCES"
      ? (look.refusal ?? "")
      : isMember
        ? `mode ${mode}, ${owner}, which it is in`
        : `mode ${mode}: ${owner} may, which it is not in`;
  return {
    path,
    mode,
    uid: look.uid,
    gid: look.gid,
    group,
    accessible: look.refusal === undefined,
    problem: look.refusal === undefined ? null : `exists, but uid ${user.uid} may not read and write it: ${why}`,
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
