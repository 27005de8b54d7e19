import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { HardwareFacts } from "../../src/api/hardware.ts";
import { systemMachine, type Machine, type NodeEntry } from "../../src/hardware/machine.ts";
import { probeHardware } from "../../src/hardware/probe.ts";
import { tempDir } from "../support/temp-dir.ts";

/** Files of a machine by path: a text, or where a link leads. */
export type Tree = Readonly<Record<string, string | { readonly link: string }>>;

export interface MachineSketch {
  readonly tree: Tree;
  readonly architecture?: string;
  readonly user?: Machine["user"];
  /** Of device files; others may be opened and belong to group 0. */
  readonly nodes?: Readonly<Record<string, NodeEntry>>;
  /** What `nvidia-smi` prints, or what it fails with; absent: there is none. */
  readonly smi?: string | Error | ((words: readonly string[]) => string);
  /** Paths that may not be read. */
  readonly closed?: readonly string[];
}

const gib = 1024 ** 3;

/** Two cores of a PC, 16 GiB, no limit and no device. */
export const pc: Tree = {
  "/proc/cpuinfo": [0, 1]
    .map(
      (id) =>
        `processor\t: ${id}\nmodel name\t: Example 3000\nphysical id\t: 0\ncore id\t\t: ${id}\nflags\t\t: fpu sse4_2 avx avx2 fma\n`,
    )
    .join("\n"),
  "/proc/meminfo":
    "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\nSwapTotal:             0 kB\n",
  "/proc/self/status": "Name:\tnode\nCpus_allowed_list:\t0-1\n",
  "/proc/self/cgroup": "0::/user.slice\n",
  "/proc/sys/kernel/osrelease": "6.12.0\n",
  "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
  "/sys/fs/cgroup/user.slice/memory.max": "max\n",
  "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
  "/etc/group": "root:x:0:\nvideo:x:44:\nrender:x:109:\n",
};

/** What a probe of that PC finds. */
export const pcFacts: HardwareFacts = {
  probed_at: "2026-01-01T00:00:00.000Z",
  user: "uid 1000, groups 1000",
  kernel: "6.12.0",
  cpu: {
    model: "Example 3000",
    architecture: "x64",
    cores: 2,
    threads: 2,
    usable: 2,
    features: ["sse4_2", "avx", "fma", "avx2"],
    evidence: [{ source: "/proc/cpuinfo", says: "2 processors, Example 3000" }],
  },
  memory: {
    total_bytes: 16 * gib,
    available_bytes: 8 * gib,
    swap_bytes: 0,
    limit_bytes: null,
    usable_bytes: 16 * gib,
    evidence: [{ source: "/proc/meminfo", says: "MemTotal 16777216 kB" }],
  },
  gpus: [],
  npu: null,
  devices: [],
  disks: [
    { use: "state", path: "/state", total_bytes: 100 * gib, free_bytes: 50 * gib, evidence: [] },
    { use: "models", path: "/models", total_bytes: 100 * gib, free_bytes: 50 * gib, evidence: [] },
  ],
  drivers: [],
  problems: [],
};

/** A device file as root owns it, which this group may open. */
export function nodeOf(gid: number, refusal?: string): NodeEntry {
  return { mode: 0o660, uid: 0, gid, refusal };
}

/** What a probe finds on a machine laid out so. */
export async function probed(sketch: MachineSketch): Promise<HardwareFacts> {
  await using directory = await tempDir();
  for (const [path, content] of Object.entries(sketch.tree)) {
    const place = join(directory.path, path);
    await mkdir(dirname(place), { recursive: true });
    if (typeof content === "string") await writeFile(place, content);
    else await symlink(content.link, place);
  }
  const real = systemMachine(directory.path);
  const refuse = (path: string): void => {
    if (sketch.closed?.includes(path) === true) throw Object.assign(new Error("no"), { code: "EACCES" });
  };
  const machine: Machine = {
    architecture: sketch.architecture ?? "x64",
    user: sketch.user ?? { uid: 1000, groups: [1000] },
    async text(path) {
      refuse(path);
      return await real.text(path);
    },
    async names(path) {
      refuse(path);
      return await real.names(path);
    },
    target: (path) => real.target(path),
    async node(path) {
      const found = await real.node(path);
      return found === undefined ? undefined : (sketch.nodes?.[path] ?? nodeOf(0));
    },
    space: async () => ({ totalBytes: 100 * gib, freeBytes: 50 * gib }),
    async run(_program, words) {
      if (typeof sketch.smi === "string") return sketch.smi;
      if (typeof sketch.smi === "function") return sketch.smi(words);
      throw sketch.smi ?? Object.assign(new Error("spawn nvidia-smi ENOENT"), { code: "ENOENT" });
    },
    now: () => new Date("2026-01-01T00:00:00.000Z"),
  };
  return await probeHardware(machine, { stateDir: "/state", modelsDir: "/models" }, new AbortController().signal);
}

/** A PCI device with its driver, and a node of a class that belongs to it. */
export function pciTree(
  address: string,
  ids: { readonly class: string; readonly vendor: string; readonly device: string },
  more: { readonly driver?: string; readonly node?: readonly [kind: "drm" | "accel", name: string] } = {},
): Tree {
  const home = `/sys/devices/pci0000:00/${address}`;
  const { driver, node } = more;
  return {
    [`${home}/class`]: `0x${ids.class}\n`,
    [`${home}/vendor`]: `0x${ids.vendor}\n`,
    [`${home}/device`]: `0x${ids.device}\n`,
    [`/sys/bus/pci/devices/${address}`]: { link: `../../../devices/pci0000:00/${address}` },
    ...(driver === undefined
      ? {}
      : {
          [`${home}/driver`]: { link: `../../../bus/pci/drivers/${driver}` },
          [`/sys/bus/pci/drivers/${driver}/uevent`]: "",
          [`/sys/module/${driver}/initstate`]: "live\n",
        }),
    ...(node === undefined
      ? {}
      : {
          [`${home}/${node[0]}/${node[1]}/dev`]: "226:128\n",
          [`/sys/class/${node[0]}/${node[1]}`]: { link: `../../devices/pci0000:00/${address}/${node[0]}/${node[1]}` },
        }),
  };
}
