import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../src/api/hardware.ts";
import { device, gpu, kernel } from "./parts.ts";
import { nodeOf, pc, pcFacts, pciTree, probed, type MachineSketch, type Tree } from "./tree.ts";

describe("others", () => {
  const table: readonly [string, MachineSketch, Partial<HardwareFacts>][] = [
    [
      "Intel's own GPU",
      {
        tree: {
          ...pc,
          ...pciTree(
            "0000:00:02.0",
            { class: "030000", vendor: "8086", device: "a7a0" },
            { driver: "i915", node: ["drm", "renderD128"] },
          ),
          "/dev/dri/renderD128": "",
        },
        nodes: { "/dev/dri/renderD128": nodeOf(109) },
      },
      {
        gpus: [
          gpu({
            id: "0000:00:02.0",
            vendor: "intel",
            vendor_id: "8086",
            device_id: "a7a0",
            integrated: true,
            driver: "i915",
            render_node: "/dev/dri/renderD128",
            backends: ["vulkan"],
            evidence: [{ source: "/sys/bus/pci/devices/0000:00:02.0", says: "8086:a7a0, driver i915" }],
          }),
        ],
        devices: [device("/dev/dri/renderD128", { gid: 109, group: "render" })],
        drivers: [kernel("i915")],
      },
    ],
    [
      "a board whose GPU is on no PCI bus",
      {
        tree: {
          ...pc,
          "/sys/devices/platform/fb000000.gpu/drm/renderD128/dev": "226:128\n",
          "/sys/devices/platform/fb000000.gpu/drm/renderD128/device": { link: "../.." },
          "/sys/devices/platform/fb000000.gpu/driver": { link: "../../../bus/platform/drivers/panthor" },
          "/sys/bus/platform/drivers/panthor/uevent": "",
          "/sys/class/drm/renderD128": { link: "../../devices/platform/fb000000.gpu/drm/renderD128" },
          "/dev/dri/renderD128": "",
        },
      },
      {
        gpus: [
          gpu({
            id: "fb000000.gpu",
            vendor: "other",
            integrated: true,
            driver: "panthor",
            render_node: "/dev/dri/renderD128",
            backends: ["vulkan"],
            evidence: [{ source: "/sys/class/drm/renderD128", says: "fb000000.gpu, driver panthor" }],
          }),
        ],
        devices: [device("/dev/dri/renderD128")],
      },
    ],
    [
      "a device file in a container whose /sys says nothing of it",
      { tree: { ...pc, "/dev/dri/renderD129": "" } },
      { devices: [device("/dev/dri/renderD129")] },
    ],
  ];
  for (const [name, sketch, parts] of table) {
    it(name, async () => assert.deepEqual(await probed(sketch), { ...pcFacts, ...parts }));
  }
});

describe("an NPU", () => {
  const address = "0000:c6:00.1";
  const ids = { class: "118000", vendor: "1022", device: "17f0" };
  const npu: Tree = {
    ...pc,
    ...pciTree(address, ids, { driver: "amdxdna", node: ["accel", "accel0"] }),
    "/sys/module/amdxdna/version": "2.19.0\n",
    "/dev/accel/accel0": "",
  };
  const source = `/sys/bus/pci/devices/${address}`;
  const found: NonNullable<HardwareFacts["npu"]> = {
    vendor: "amd",
    vendor_id: "1022",
    device_id: "17f0",
    name: null,
    driver: "amdxdna",
    device: "/dev/accel/accel0",
    evidence: [{ source, says: "1022:17f0, driver amdxdna" }],
  };

  it("with its driver", async () => {
    assert.deepEqual(await probed({ tree: npu }), {
      ...pcFacts,
      npu: found,
      devices: [device("/dev/accel/accel0")],
      drivers: [kernel("amdxdna", "2.19.0")],
    });
  });

  it("without its driver", async () => {
    assert.deepEqual(await probed({ tree: { ...pc, ...pciTree(address, ids) } }), {
      ...pcFacts,
      npu: {
        ...found,
        driver: null,
        device: null,
        evidence: [
          { source, says: "1022:17f0, no driver bound" },
          { source: "/sys/class/accel", says: "has no node for it: its driver is not loaded, or too old" },
        ],
      },
    });
  });

  it("in a container without the device is reported without its device file", async () => {
    const { "/dev/accel/accel0": _node, ...tree } = npu;
    const says = "the kernel has it, /dev has not: as in a container without the device";
    assert.deepEqual((await probed({ tree })).npu, {
      ...found,
      device: null,
      evidence: [...found.evidence, { source: "/dev/accel/accel0", says }],
    });
  });

  it("whose device file alone is there", async () => {
    assert.deepEqual((await probed({ tree: { ...pc, "/dev/accel/accel0": "" } })).npu, {
      ...found,
      vendor: "other",
      vendor_id: null,
      device_id: null,
      driver: null,
      evidence: [{ source: "/dev/accel/accel0", says: "exists; /sys does not describe it" }],
    });
  });

  it("is not reported for other chips of the same class", async () => {
    const tree = { ...pc, ...pciTree(address, { ...ids, device: "1649" }) };
    assert.equal((await probed({ tree })).npu, null);
  });
});
