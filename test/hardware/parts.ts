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
/** A module of the kernel. */
export const kernel = (name: string, version: string | null = null): HardwareFacts["drivers"][number] => ({
  name,
  kind: "kernel",
  version,
  source: `/sys/module/${name}`,
});
