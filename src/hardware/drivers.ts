import type { Driver } from "../api/hardware.ts";
import type { EvidenceReader } from "./evidence-reader.ts";

/** Modules of the kernel that engines compute through. */
const modules = [
  "amdgpu",
  "amdxdna",
  "i915",
  "intel_vpu",
  "nouveau",
  "nvidia",
  "panfrost",
  "panthor",
  "virtio_gpu",
  "xe",
];

const vulkanDirectories = ["/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"];

/** Loaded drivers, then libraries of this machine, which engines use that are processes; images contain theirs. */
export async function probeDrivers(reader: EvidenceReader): Promise<Driver[]> {
  const drivers: Driver[] = [];
  const loaded = await reader.names("/sys/module");
  for (const name of modules) {
    if (!loaded.includes(name)) continue;
    const source = `/sys/module/${name}`;
    const version =
      (await reader.text(`${source}/version`)) ?? (name === "nvidia" ? await nvidiaVersion(reader) : undefined);
    drivers.push({ name, kind: "kernel", version: version ?? null, source });
  }
  const rocm = "/opt/rocm/.info/version";
  const version = await reader.text(rocm);
  if (version !== undefined) drivers.push({ name: "rocm", kind: "library", version, source: rocm });
  for (const directory of vulkanDirectories) {
    for (const file of await reader.names(directory)) {
      if (!file.endsWith(".json")) continue;
      drivers.push({
        name: `vulkan ${file.slice(0, -5)}`,
        kind: "library",
        version: null,
        source: `${directory}/${file}`,
      });
    }
  }
  return drivers;
}

/** `NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu …`. */
async function nvidiaVersion(reader: EvidenceReader): Promise<string | undefined> {
  const text = await reader.text("/proc/driver/nvidia/version");
  return /^NVRM version:.*?(\d+\.\d+(?:\.\d+)?)\s/m.exec(text ?? "")?.[1];
}
