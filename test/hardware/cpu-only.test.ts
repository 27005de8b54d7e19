import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../src/api/hardware.ts";
import { pc, pcFacts, probed, type Tree } from "./tree.ts";

const gib = 1024 ** 3;

const noMemory: HardwareFacts["memory"] = {
  total_bytes: null,
  available_bytes: null,
  swap_bytes: null,
  limit_bytes: null,
  usable_bytes: null,
  evidence: [],
};

describe("a machine without devices", () => {
  it("has its processors, memory and disks, and nothing else", async () => {
    assert.deepEqual(await probed({ tree: pc }), pcFacts);
  });

  it("of which no fact can be read has none, and reports no error", async () => {
    assert.deepEqual(await probed({ tree: {} }), {
      ...pcFacts,
      kernel: null,
      cpu: { model: null, architecture: "x64", cores: null, threads: null, usable: null, features: [], evidence: [] },
      memory: noMemory,
    });
  });

  it("reports which files it may not read", async () => {
    const closed = ["/proc/meminfo", "/sys/bus/pci/devices", "/dev/dri"];
    assert.deepEqual(await probed({ tree: pc, closed }), {
      ...pcFacts,
      memory: { ...noMemory, evidence: [{ source: "/proc/meminfo", says: "cannot be read: EACCES" }] },
      problems: [
        { source: "/dev/dri", says: "cannot be read: EACCES" },
        { source: "/sys/bus/pci/devices", says: "cannot be read: EACCES" },
      ],
    });
  });

  it("on ARM has its name from the device tree and its cores from sysfs", async () => {
    const cpus = [0, 1, 2, 3];
    const tree: Tree = {
      ...pc,
      "/proc/cpuinfo": cpus
        .map((id) => `processor\t: ${id}\nFeatures\t: fp asimd asimddp sve\nCPU part\t: 0xd0b\n`)
        .join("\n"),
      "/proc/device-tree/model": "Example Board 5\0",
      "/proc/self/status": "Cpus_allowed_list:\t0-3\n",
      ...Object.fromEntries(
        cpus.map((id) => [`/sys/devices/system/cpu/cpu${id}/topology/thread_siblings_list`, `${id}\n`]),
      ),
      "/sys/devices/system/cpu/cpufreq/boost": "1\n",
    };
    assert.deepEqual(await probed({ tree, architecture: "arm64" }), {
      ...pcFacts,
      cpu: {
        model: "Example Board 5",
        architecture: "arm64",
        cores: 4,
        threads: 4,
        usable: 4,
        features: ["asimd", "asimddp", "sve"],
        evidence: [{ source: "/proc/cpuinfo", says: "4 processors, Example Board 5" }],
      },
    });
  });
});

describe("limits", () => {
  const limited = (usable: number, limit: number, cpu: string, memory: string): typeof pcFacts => ({
    ...pcFacts,
    cpu: {
      ...pcFacts.cpu,
      usable,
      evidence: [...pcFacts.cpu.evidence, { source: cpu, says: `allows ${usable} cores` }],
    },
    memory: {
      ...pcFacts.memory,
      limit_bytes: limit,
      usable_bytes: limit,
      evidence: [...pcFacts.memory.evidence, { source: memory, says: `allows ${limit} bytes` }],
    },
  });

  const v1 = "/sys/fs/cgroup";
  const v2 = "/sys/fs/cgroup/box";
  const groups: readonly (readonly [
    what: string,
    files: Tree,
    cores: number,
    cpu: string,
    limit: number,
    memory: string,
  ])[] = [
    [
      "of version 2: the least on the way up, here that of a group around the own one",
      {
        "/proc/self/cgroup": "0::/box/berth.service\n",
        [`${v2}/memory.max`]: `${4 * gib}\n`,
        [`${v2}/cpu.max`]: "max 100000\n",
        [`${v2}/berth.service/memory.max`]: `${8 * gib}\n`,
        [`${v2}/berth.service/cpu.max`]: "150000 100000\n",
      },
      1.5,
      `${v2}/berth.service/cpu.max`,
      4 * gib,
      `${v2}/memory.max`,
    ],
    [
      "of version 1, in a container that does not see the group it is in by that path",
      {
        "/proc/self/cgroup": "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n",
        [`${v1}/cgroup.controllers`]: "",
        [`${v1}/memory/memory.limit_in_bytes`]: `${2 * gib}\n`,
        [`${v1}/cpu/cpu.cfs_quota_us`]: "50000\n",
        [`${v1}/cpu/cpu.cfs_period_us`]: "100000\n",
      },
      0.5,
      `${v1}/cpu/cpu.cfs_quota_us`,
      2 * gib,
      `${v1}/memory/memory.limit_in_bytes`,
    ],
  ];
  for (const [what, files, cores, cpu, limit, memory] of groups) {
    it(what, async () => {
      assert.deepEqual(await probed({ tree: { ...pc, ...files } }), limited(cores, limit, cpu, memory));
    });
  }

  it("set no limit where they are invalid, or above the machine's memory", async () => {
    const tree: Tree = {
      ...pc,
      "/proc/self/cgroup": "4:memory:/\n3:cpu:/\n",
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
      "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    };
    assert.deepEqual(await probed({ tree }), pcFacts);
    const wide = { ...pc, "/sys/fs/cgroup/user.slice/memory.max": `${64 * gib}\n` };
    assert.deepEqual(await probed({ tree: wide }), pcFacts);
  });

  it("by affinity count in the usable cores", async () => {
    const tree = { ...pc, "/proc/self/status": "Cpus_allowed_list:\t1\n" };
    const says = "Cpus_allowed_list 1: 1 of 2";
    assert.deepEqual(await probed({ tree }), {
      ...pcFacts,
      cpu: {
        ...pcFacts.cpu,
        engine_cores: 1,
        usable: 1,
        evidence: [...pcFacts.cpu.evidence, { source: "/proc/self/status", says }],
      },
    });
  });
});
