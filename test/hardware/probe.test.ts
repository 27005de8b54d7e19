import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hardwareSchema, type Gpu, type HardwareFacts } from "../../src/api/hardware.ts";
import { withSuggestions } from "../../src/engines/suggestion.ts";
import { apu, device, gpu, kernel } from "./parts.ts";
import { nodeOf, pc, pcFacts, pciTree, probed, type MachineSketch, type Tree } from "./tree.ts";

const gib = 1024 ** 3;
const node = "/dev/dri/renderD128";
const notInDev = "the kernel has it, /dev has not: as in a container without the device";
const library = (name: string, version: string | null, source: string): HardwareFacts["drivers"][number] => ({
  name,
  kind: "library",
  version,
  source,
});

/** A GPU on the PCI bus, with where its ids were read. */
function onBus(more: Partial<Gpu> & Pick<Gpu, "id" | "vendor" | "vendor_id" | "device_id">): Gpu {
  const driver = more.driver === undefined ? "no driver bound" : `driver ${more.driver}`;
  const says = `${more.vendor_id}:${more.device_id}, ${driver}`;
  return gpu({ evidence: [{ source: `/sys/bus/pci/devices/${more.id}`, says }], ...more });
}

const intel: Tree = {
  ...pc,
  ...pciTree(
    "0000:00:02.0",
    { class: "030000", vendor: "8086", device: "a7a0" },
    { driver: "i915", node: ["drm", "renderD128"] },
  ),
  [node]: "",
};
const board: Tree = {
  ...pc,
  "/sys/devices/platform/fb000000.gpu/drm/renderD128/dev": "226:128\n",
  "/sys/devices/platform/fb000000.gpu/drm/renderD128/device": { link: "../.." },
  "/sys/devices/platform/fb000000.gpu/driver": { link: "../../../bus/platform/drivers/panthor" },
  "/sys/bus/platform/drivers/panthor/uevent": "",
  "/sys/class/drm/renderD128": { link: "../../devices/platform/fb000000.gpu/drm/renderD128" },
  [node]: "",
};

const nvidiaAt = "0000:01:00.0";
const nvidiaIds = { class: "030000", vendor: "10de", device: "2684" };
const nvidia: Tree = {
  ...pc,
  ...pciTree(nvidiaAt, nvidiaIds, { driver: "nvidia", node: ["drm", "renderD128"] }),
  // Its sound.
  ...pciTree("0000:01:00.1", { class: "040300", vendor: "10de", device: "22ba" }),
  ...Object.fromEntries(
    ["nvidiactl", "nvidia0", "nvidia-uvm", "nvidia-caps/nvidia-cap1"].map((of) => [`/dev/${of}`, ""]),
  ),
  [node]: "",
  "/dev/dri/card0": "",
  "/proc/driver/nvidia/version":
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: gcc 13\n",
  [`/proc/driver/nvidia/gpus/${nvidiaAt}/information`]: "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 130\n",
};
const ids = { vendor: "nvidia", vendor_id: "10de", device_id: "2684", integrated: false } as const;
const geforce = (memory: number | null): Partial<HardwareFacts> => ({
  gpus: [
    onBus({
      id: nvidiaAt,
      ...ids,
      name: "NVIDIA GeForce RTX 4090",
      driver: "nvidia",
      memory_bytes: memory,
      render_node: node,
      backends: ["cuda", "vulkan"],
    }),
  ],
  devices: ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl", node].map((path) => device(path)),
  drivers: [kernel("nvidia", "550.54.14")],
});
const smiSays = (says: string): Partial<HardwareFacts> => ({
  ...geforce(null),
  problems: [{ source: "nvidia-smi", says }],
});

const amdHome = `/sys/devices/pci0000:00/${apu.id}`;
const kfd = "/sys/class/kfd/kfd/topology/nodes";
const rocm = "/opt/rocm/.info/version";
const icd = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";
const amd: Tree = {
  ...pc,
  ...pciTree(
    apu.id,
    { class: "038000", vendor: "1002", device: "15bf" },
    { driver: "amdgpu", node: ["drm", "renderD128"] },
  ),
  [`${amdHome}/mem_info_vram_total`]: `${gib}\n`,
  [`${amdHome}/mem_info_gtt_total`]: `${8 * gib}\n`,
  [`${kfd}/0/properties`]: "cpu_cores_count 16\ngfx_target_version 0\ndrm_render_minor 0\n",
  [`${kfd}/1/properties`]: "cpu_cores_count 0\ngfx_target_version 110003\ndrm_render_minor 128\n",
  "/usr/share/misc/pci.ids":
    "# names\n1001  Kolter\n\t15bf  another\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t1111  x\n\t\t1002 15bf  y\n\t15bf  Phoenix1\n1003  ULSI\n\t15bf  z\n",
  "/dev/kfd": "",
  [node]: "",
  [rocm]: "6.2.0-66\n",
  [icd]: "{}",
};
const radeon: Partial<HardwareFacts> = {
  gpus: [apu],
  devices: [device("/dev/kfd"), device(node)],
  drivers: [kernel("amdgpu"), library("rocm", "6.2.0-66", rocm), library("vulkan radeon_icd.x86_64", null, icd)],
};
const refused = "exists, but uid 1000 may not read and write it: mode 0660";

const npuAt = "0000:c6:00.1";
const npuSource = `/sys/bus/pci/devices/${npuAt}`;
const npuIds = { class: "118000", vendor: "1022", device: "17f0" };
const accel = "/dev/accel/accel0";
const withNpu: Tree = {
  ...pc,
  ...pciTree(npuAt, npuIds, { driver: "amdxdna", node: ["accel", "accel0"] }),
  "/sys/module/amdxdna/version": "2.19.0\n",
  [accel]: "",
};
const npu: NonNullable<HardwareFacts["npu"]> = {
  vendor: "amd",
  vendor_id: "1022",
  device_id: "17f0",
  name: null,
  driver: "amdxdna",
  device: accel,
  evidence: [{ source: npuSource, says: "1022:17f0, driver amdxdna" }],
};
const xdna = [kernel("amdxdna", "2.19.0")];
const without = (tree: Tree, ...paths: readonly string[]): Tree =>
  Object.fromEntries(Object.entries(tree).filter(([path]) => !paths.includes(path)));

const noMemory: HardwareFacts["memory"] = {
  total_bytes: null,
  available_bytes: null,
  swap_bytes: null,
  limit_bytes: null,
  usable_bytes: null,
  evidence: [],
};
const noCpu = {
  model: null,
  architecture: "x64",
  cores: null,
  threads: null,
  usable: null,
  features: [],
  evidence: [],
};
const unreadable = "cannot be read: EACCES";
const four = [0, 1, 2, 3];
const arm: Tree = {
  ...pc,
  "/proc/cpuinfo": four
    .map((id) => `processor\t: ${id}\nFeatures\t: fp asimd asimddp sve\nCPU part\t: 0xd0b\n`)
    .join("\n"),
  "/proc/device-tree/model": "Example Board 5\0",
  "/proc/self/status": "Cpus_allowed_list:\t0-3\n",
  ...Object.fromEntries(
    four.map((id) => [`/sys/devices/system/cpu/cpu${id}/topology/thread_siblings_list`, `${id}\n`]),
  ),
  "/sys/devices/system/cpu/cpufreq/boost": "1\n",
};
const armCpu = {
  model: "Example Board 5",
  architecture: "arm64",
  cores: 4,
  threads: 4,
  usable: 4,
  features: ["asimd", "asimddp", "sve"],
  evidence: [{ source: "/proc/cpuinfo", says: "4 processors, Example Board 5" }],
};

/** Of processors and memory, by these files. */
const limited = (usable: number, limit: number, cpu: string, memory: string): Partial<HardwareFacts> => ({
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
const status = { source: "/proc/self/status", says: "Cpus_allowed_list 1: 1 of 2" };

const table: Readonly<Record<string, readonly [sketch: MachineSketch, parts: Partial<HardwareFacts>]>> = {
  "without devices has processors, memory and disks, and nothing else": [{ tree: pc }, {}],
  "of which no fact can be read has none": [{ tree: {} }, { kernel: null, cpu: noCpu, memory: noMemory }],
  "whose files may not be read says which": [
    { tree: pc, closed: ["/proc/meminfo", "/sys/bus/pci/devices", "/dev/dri"] },
    {
      memory: { ...noMemory, evidence: [{ source: "/proc/meminfo", says: unreadable }] },
      problems: ["/dev/dri", "/sys/bus/pci/devices"].map((source) => ({ source, says: unreadable })),
    },
  ],
  "on ARM has its name from the device tree and its cores from sysfs": [
    { tree: arm, architecture: "arm64" },
    { cpu: armCpu },
  ],
  "in control groups of version 2 has the least on the way up, here that of a group around its own": [
    {
      tree: {
        ...pc,
        "/proc/self/cgroup": "0::/box/berth.service\n",
        [`${v2}/memory.max`]: `${4 * gib}\n`,
        [`${v2}/cpu.max`]: "max 100000\n",
        [`${v2}/berth.service/memory.max`]: `${8 * gib}\n`,
        [`${v2}/berth.service/cpu.max`]: "150000 100000\n",
      },
    },
    limited(1.5, 4 * gib, `${v2}/berth.service/cpu.max`, `${v2}/memory.max`),
  ],
  "in control groups of version 1 has its limit, in a container that does not see its own group by that path": [
    {
      tree: {
        ...pc,
        "/proc/self/cgroup": "4:memory:/docker/0123\n3:cpu,cpuacct:/docker/0123\n0::/\n",
        [`${v1}/cgroup.controllers`]: "",
        [`${v1}/memory/memory.limit_in_bytes`]: `${2 * gib}\n`,
        [`${v1}/cpu/cpu.cfs_quota_us`]: "50000\n",
        [`${v1}/cpu/cpu.cfs_period_us`]: "100000\n",
      },
    },
    limited(0.5, 2 * gib, `${v1}/cpu/cpu.cfs_quota_us`, `${v1}/memory/memory.limit_in_bytes`),
  ],
  "with invalid limits has none": [
    {
      tree: {
        ...pc,
        "/proc/self/cgroup": "4:memory:/\n3:cpu:/\n",
        [`${v1}/memory/memory.limit_in_bytes`]: "9223372036854771712\n",
        [`${v1}/cpu/cpu.cfs_quota_us`]: "-1\n",
        [`${v1}/cpu/cpu.cfs_period_us`]: "100000\n",
      },
    },
    {},
  ],
  "with a limit above its memory has none": [{ tree: { ...pc, [`${v1}/user.slice/memory.max`]: `${64 * gib}\n` } }, {}],
  "counts its affinity in the usable cores": [
    { tree: { ...pc, "/proc/self/status": "Cpus_allowed_list:\t1\n" } },
    { cpu: { ...pcFacts.cpu, engine_cores: 1, usable: 1, evidence: [...pcFacts.cpu.evidence, status] } },
  ],
  "with Intel's own GPU": [
    { tree: intel, nodes: { [node]: nodeOf(109) } },
    {
      gpus: [
        onBus({
          id: "0000:00:02.0",
          vendor: "intel",
          vendor_id: "8086",
          device_id: "a7a0",
          integrated: true,
          driver: "i915",
          render_node: node,
          backends: ["vulkan"],
        }),
      ],
      devices: [device(node, { gid: 109, group: "render" })],
      drivers: [kernel("i915")],
    },
  ],
  "whose GPU is on no PCI bus": [
    { tree: board },
    {
      gpus: [
        gpu({
          id: "fb000000.gpu",
          vendor: "other",
          integrated: true,
          driver: "panthor",
          render_node: node,
          backends: ["vulkan"],
          evidence: [{ source: "/sys/class/drm/renderD128", says: "fb000000.gpu, driver panthor" }],
        }),
      ],
      devices: [device(node)],
    },
  ],
  "that is a container, whose /sys says nothing of a device file": [
    { tree: { ...pc, "/dev/dri/renderD129": "" } },
    { devices: [device("/dev/dri/renderD129")] },
  ],
  "with NVIDIA's name, memory and driver": [
    { tree: nvidia, smi: "00000000:01:00.0, NVIDIA GeForce RTX 4090, 24564\n" },
    geforce(24_564 * 1024 ** 2),
  ],
  "without nvidia-smi": [{ tree: nvidia }, smiSays("is not on PATH: memory is not known")],
  "with an nvidia-smi that fails, and why in one line": [
    {
      tree: nvidia,
      smi: new Error("Command failed: nvidia-smi\nNVIDIA-SMI has failed because it could not communicate"),
    },
    smiSays("failed: Command failed: nvidia-smi"),
  ],
  "without NVIDIA's driver, where nvidia-smi is not run": [
    { tree: { ...pc, ...pciTree(nvidiaAt, { ...nvidiaIds, class: "030200" }) }, smi: new Error("asked") },
    { gpus: [onBus({ id: nvidiaAt, ...ids })] },
  ],
  "with AMD's memory, ROCm's name of the target, and libraries": [{ tree: amd }, radeon],
  "whose device files may not be opened says which group may": [
    {
      tree: amd,
      user: { uid: 1000, groups: [1000, 44] },
      nodes: { "/dev/kfd": nodeOf(109, "EACCES"), [node]: nodeOf(44, "EACCES") },
    },
    {
      ...radeon,
      user: "uid 1000, groups 1000, 44",
      devices: (
        [
          ["/dev/kfd", 109, "render", `${refused}: group render (109) may, which it is not in`],
          [node, 44, "video", `${refused}, group video (44), which it is in`],
        ] as const
      ).map(([path, gid, group, problem]) => device(path, { gid, group, accessible: false, problem })),
    },
  ],
  "that is a container without AMD's device has no backend": [
    { tree: without(amd, "/dev/kfd", node) },
    {
      ...radeon,
      gpus: [{ ...apu, backends: [], evidence: apu.evidence.toSpliced(1, 0, { source: node, says: notInDev }) }],
      devices: [],
    },
  ],
  "with an NPU and its driver": [{ tree: withNpu }, { npu, devices: [device(accel)], drivers: xdna }],
  "with an NPU, without its driver": [
    { tree: { ...pc, ...pciTree(npuAt, npuIds) } },
    {
      npu: {
        ...npu,
        driver: null,
        device: null,
        evidence: [
          { source: npuSource, says: "1022:17f0, no driver bound" },
          { source: "/sys/class/accel", says: "has no node for it: its driver is not loaded, or too old" },
        ],
      },
    },
  ],
  "that is a container without the NPU's device": [
    { tree: without(withNpu, accel) },
    { npu: { ...npu, device: null, evidence: [...npu.evidence, { source: accel, says: notInDev }] }, drivers: xdna },
  ],
  "where the NPU's device file alone is there": [
    { tree: { ...pc, [accel]: "" } },
    {
      npu: {
        ...npu,
        vendor: "other",
        vendor_id: null,
        device_id: null,
        driver: null,
        evidence: [{ source: accel, says: "exists; /sys does not describe it" }],
      },
      devices: [device(accel)],
    },
  ],
  "with another chip of the class of NPUs": [{ tree: { ...pc, ...pciTree(npuAt, { ...npuIds, device: "1649" }) } }, {}],
};

describe("a machine", () => {
  for (const [what, [sketch, parts]] of Object.entries(table))
    it(what, async () => assert.deepEqual(await probed(sketch), { ...pcFacts, ...parts }));

  for (const garbage of [
    "",
    "\0: -1 kB\n",
    "99999999999999999999\n",
    "processor: x\nMemTotal: \u{1F600} kB\n0::/../..\n",
  ])
    it(`whose files all hold ${JSON.stringify(garbage)} is described according to the schema`, async () => {
      const texts = Object.entries({ ...amd, ...nvidia }).map(([path, text]): [string, Tree[string]] => [
        path,
        typeof text === "string" ? garbage : text,
      ]);
      const hardware = withSuggestions(await probed({ tree: Object.fromEntries(texts), smi: garbage }));
      assert.deepEqual(hardwareSchema.parse(JSON.parse(JSON.stringify(hardware))), hardware);
    });

  it("reports the used part of its shared memory, the free part of its own, and the memory that is set aside for devices", async () => {
    const used = { [`${amdHome}/mem_info_gtt_used`]: `${gib}\n`, [`${amdHome}/mem_info_vram_used`]: `${gib / 2}\n` };
    const meminfo = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nCmaTotal: 524288 kB\nCmaFree: 262144 kB\n";
    const { gpus, memory } = await probed({ tree: { ...amd, ...used, "/proc/meminfo": meminfo } });
    const [card] = gpus;
    assert.deepEqual([card?.shared_memory_used_bytes, card?.memory_free_bytes], [gib, gib / 2]);
    assert.equal(memory.contiguous_free_bytes, gib / 4);
  });

  for (const [version, name, integrated] of [
    [90_010, "gfx90a", false],
    [100_306, "gfx1036", true],
    [110_501, "gfx1151", true],
    [120_001, "gfx1201", false],
  ] as const)
    it(`has ${name} where the kernel says ${version}: ${integrated ? "part of a processor" : "a card"}`, async () => {
      const properties = `gfx_target_version ${version}\ndrm_render_minor 128\n`;
      const [found] = (await probed({ tree: { ...amd, [`${kfd}/1/properties`]: properties } })).gpus;
      assert.deepEqual([found?.architecture, found?.integrated], [name, integrated]);
    });
});
