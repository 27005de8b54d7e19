import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../src/api/hardware.ts";
import { apu, device, gpu, kernel } from "./parts.ts";
import { nodeOf, pc, pcFacts, pciTree, probed, type Tree } from "./tree.ts";

const gib = 1024 ** 3;

describe("NVIDIA", () => {
  const address = "0000:01:00.0";
  const nvidia: Tree = {
    ...pc,
    ...pciTree(
      address,
      { class: "030000", vendor: "10de", device: "2684" },
      { driver: "nvidia", node: ["drm", "renderD128"] },
    ),
    "/sys/bus/pci/devices/0000:01:00.1": { link: "../../../devices/pci0000:00/0000:01:00.1" },
    "/sys/devices/pci0000:00/0000:01:00.1/class": "0x040300\n",
    "/sys/devices/pci0000:00/0000:01:00.1/vendor": "0x10de\n",
    "/sys/devices/pci0000:00/0000:01:00.1/device": "0x22ba\n",
    "/dev/nvidiactl": "",
    "/dev/nvidia0": "",
    "/dev/nvidia-uvm": "",
    "/dev/nvidia-caps/nvidia-cap1": "",
    "/dev/dri/renderD128": "",
    "/dev/dri/card0": "",
    "/proc/driver/nvidia/version":
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\nGCC version: gcc 13\n",
    [`/proc/driver/nvidia/gpus/${address}/information`]: "Model: \t\t NVIDIA GeForce RTX 4090\nIRQ:   \t\t 130\n",
  };
  const devices = ["/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl", "/dev/dri/renderD128"].map((path) =>
    device(path),
  );
  const card = gpu({
    id: address,
    vendor: "nvidia",
    vendor_id: "10de",
    device_id: "2684",
    name: "NVIDIA GeForce RTX 4090",
    integrated: false,
    driver: "nvidia",
    memory_bytes: 24_564 * 1024 ** 2,
    render_node: "/dev/dri/renderD128",
    backends: ["cuda", "vulkan"],
    evidence: [{ source: `/sys/bus/pci/devices/${address}`, says: "10de:2684, driver nvidia" }],
  });
  const found = { ...pcFacts, gpus: [card], devices, drivers: [kernel("nvidia", "550.54.14")] };

  it("reports its name, memory and driver", async () => {
    const smi = "00000000:01:00.0, NVIDIA GeForce RTX 4090, 24564\n";
    assert.deepEqual(await probed({ tree: nvidia, smi }), found);
  });

  const unasked: readonly (readonly [string, smi: Error | undefined, says: string])[] = [
    ["without nvidia-smi", undefined, "is not on PATH: memory is not known"],
    [
      "with an nvidia-smi that fails, and why in one line",
      new Error("Command failed: nvidia-smi\nNVIDIA-SMI has failed because it could not communicate"),
      "failed: Command failed: nvidia-smi",
    ],
  ];
  for (const [what, smi, says] of unasked)
    it(`has no memory that is known ${what}`, async () => {
      const gpus = [{ ...card, memory_bytes: null }];
      const facts = await probed({ tree: nvidia, ...(smi === undefined ? {} : { smi }) });
      assert.deepEqual(facts, { ...found, gpus, problems: [{ source: "nvidia-smi", says }] });
    });

  it("without a driver is listed without a backend, and nvidia-smi is not run", async () => {
    const tree = { ...pc, ...pciTree(address, { class: "030200", vendor: "10de", device: "2684" }) };
    const bare = { name: null, driver: null, memory_bytes: null, render_node: null, backends: [] };
    const evidence = [{ source: `/sys/bus/pci/devices/${address}`, says: "10de:2684, no driver bound" }];
    assert.deepEqual(await probed({ tree, smi: new Error("asked") }), {
      ...pcFacts,
      gpus: [{ ...card, ...bare, evidence }],
    });
  });
});

describe("AMD", () => {
  const address = apu.id;
  const amd: Tree = {
    ...pc,
    ...pciTree(
      address,
      { class: "038000", vendor: "1002", device: "15bf" },
      { driver: "amdgpu", node: ["drm", "renderD128"] },
    ),
    [`/sys/devices/pci0000:00/${address}/mem_info_vram_total`]: `${gib}\n`,
    [`/sys/devices/pci0000:00/${address}/mem_info_gtt_total`]: `${8 * gib}\n`,
    "/sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 16\ngfx_target_version 0\ndrm_render_minor 0\n",
    "/sys/class/kfd/kfd/topology/nodes/1/properties":
      "cpu_cores_count 0\ngfx_target_version 110003\ndrm_render_minor 128\n",
    "/usr/share/misc/pci.ids":
      "# names\n1001  Kolter\n\t15bf  another\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n\t1111  x\n\t\t1002 15bf  y\n\t15bf  Phoenix1\n1003  ULSI\n\t15bf  z\n",
    "/dev/kfd": "",
    "/dev/dri/renderD128": "",
    "/opt/rocm/.info/version": "6.2.0-66\n",
    "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}",
  };
  const found: HardwareFacts = {
    ...pcFacts,
    gpus: [apu],
    devices: [device("/dev/kfd"), device("/dev/dri/renderD128")],
    drivers: [
      kernel("amdgpu"),
      { name: "rocm", kind: "library", version: "6.2.0-66", source: "/opt/rocm/.info/version" },
      {
        name: "vulkan radeon_icd.x86_64",
        kind: "library",
        version: null,
        source: "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json",
      },
    ],
  };

  it("reports memory, ROCm's name of the target, and libraries", async () => {
    assert.deepEqual(await probed({ tree: amd }), found);
  });

  it("whose device files may not be opened says which group may", async () => {
    const user = { uid: 1000, groups: [1000, 44] };
    const nodes = { "/dev/kfd": nodeOf(109, "EACCES"), "/dev/dri/renderD128": nodeOf(44, "EACCES") };
    assert.deepEqual(await probed({ tree: amd, user, nodes }), {
      ...found,
      user: "uid 1000, groups 1000, 44",
      devices: [
        device("/dev/kfd", {
          gid: 109,
          group: "render",
          accessible: false,
          problem:
            "exists, but uid 1000 may not read and write it: mode 0660: group render (109) may, which it is not in",
        }),
        device("/dev/dri/renderD128", {
          gid: 44,
          group: "video",
          accessible: false,
          problem: "exists, but uid 1000 may not read and write it: mode 0660, group video (44), which it is in",
        }),
      ],
    });
  });

  it("in a container without the device is listed without a backend", async () => {
    const { "/dev/kfd": _kfd, "/dev/dri/renderD128": _node, ...tree } = amd;
    const says = "the kernel has it, /dev has not: as in a container without the device";
    const [first, second] = apu.evidence;
    assert.deepEqual(await probed({ tree }), {
      ...found,
      gpus: [{ ...apu, backends: [], evidence: [first, { source: "/dev/dri/renderD128", says }, second] }],
      devices: [],
    });
  });

  it("reports the used part of its shared memory, and the machine's memory that is set aside for devices", async () => {
    const used = { [`/sys/devices/pci0000:00/${address}/mem_info_gtt_used`]: `${gib}\n` };
    const meminfo = "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nCmaTotal: 524288 kB\nCmaFree: 262144 kB\n";
    const { gpus, memory } = await probed({ tree: { ...amd, ...used, "/proc/meminfo": meminfo } });
    assert.equal(gpus[0]?.shared_memory_used_bytes, gib);
    assert.equal(memory.contiguous_free_bytes, gib / 4);
  });

  for (const [version, name, integrated] of [
    [90_010, "gfx90a", false],
    [100_306, "gfx1036", true],
    [110_501, "gfx1151", true],
    [120_001, "gfx1201", false],
  ] as const) {
    it(`is ${name} where the kernel says ${version}: ${integrated ? "part of a processor" : "a card"}`, async () => {
      const properties = `gfx_target_version ${version}\ndrm_render_minor 128\n`;
      const tree = { ...amd, "/sys/class/kfd/kfd/topology/nodes/1/properties": properties };
      const [gpu] = (await probed({ tree })).gpus;
      assert.deepEqual([gpu?.architecture, gpu?.integrated], [name, integrated]);
    });
  }
});
