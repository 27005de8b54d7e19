import type { DeviceNode, Gpu, HardwareFacts } from "../../src/api/hardware.ts";

/** A device file as root has it. */
export const device = (path: string, more: Partial<DeviceNode> = {}): DeviceNode => ({
  path,
  mode: "0660",
  uid: 0,
  gid: 0,
  group: "root",
  accessible: true,
  problem: null,
  ...more,
});

/** A GPU of which no more is known than what is given. */
export const gpu = (more: Partial<Gpu> & Pick<Gpu, "id" | "vendor" | "evidence">): Gpu => ({
  vendor_id: null,
  device_id: null,
  name: null,
  architecture: null,
  integrated: null,
  driver: null,
  memory_bytes: null,
  shared_memory_bytes: null,
  render_node: null,
  backends: [],
  ...more,
});

/** The GPU in a processor of AMD's, as it is found. */
export const apu = gpu({
  id: "0000:c5:00.0",
  vendor: "amd",
  vendor_id: "1002",
  device_id: "15bf",
  name: "Phoenix1",
  architecture: "gfx1103",
  integrated: true,
  driver: "amdgpu",
  memory_bytes: 1024 ** 3,
  shared_memory_bytes: 8 * 1024 ** 3,
  render_node: "/dev/dri/renderD128",
  backends: ["rocm", "vulkan"],
  evidence: [
    { source: "/sys/bus/pci/devices/0000:c5:00.0", says: "1002:15bf, driver amdgpu" },
    { source: "/sys/class/kfd/kfd/topology/nodes/1/properties", says: "gfx_target_version 110003" },
  ],
});

/** A module of the kernel. */
export const kernel = (name: string, version: string | null = null): HardwareFacts["drivers"][number] => ({
  name,
  kind: "kernel",
  version,
  source: `/sys/module/${name}`,
});
