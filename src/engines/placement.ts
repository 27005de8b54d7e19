import type { HardwareFacts } from "../api/hardware.ts";
import type { Backend, EngineKind } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";

/** Devices of this machine that decide what an engine can compute on. */
export interface Devices {
  /** A render node in /dev/dri. */
  readonly hasRenderNode: boolean;
  /** /dev/nvidiactl: NVIDIA's driver is loaded. */
  readonly hasNvidia: boolean;
  /** /dev/kfd: AMD's compute driver has a GPU. */
  readonly hasKfd: boolean;
}

/** A machine of which nothing is known. */
export const noDevices: Devices = { hasNvidia: false, hasRenderNode: false, hasKfd: false };

/** What of a probe decides a backend: whether device files are there, not whether this user may open them. */
export function devicesOf({ devices }: Pick<HardwareFacts, "devices">): Devices {
  const has = (prefix: string): boolean => devices.some(({ path }) => path.startsWith(prefix));
  return { hasRenderNode: has("/dev/dri/renderD"), hasNvidia: has("/dev/nvidiactl"), hasKfd: has("/dev/kfd") };
}

/** Devices from which `auto` would have taken that backend: for an engine that an earlier operator has started. */
export function devicesBehind(backend: string): Devices {
  const hasKfd = backend === "rocm";
  return { hasNvidia: backend === "cuda", hasRenderNode: hasKfd || backend === "vulkan", hasKfd };
}

/** The backend of a slot, with the reason. Only `auto` looks at the machine. */
export function backendOf(
  { backend, engine }: Pick<SlotSpec, "backend" | "engine">,
  devices: Devices,
): { readonly value: Exclude<Backend, "auto">; readonly reason: string } {
  if (backend !== "auto") return { value: backend, reason: "the spec" };
  const fixed: Readonly<Partial<Record<EngineKind, Exclude<Backend, "auto">>>> = { npu: "npu", stt: "cpu", tts: "cpu" };
  const only = fixed[engine];
  if (only !== undefined) return { value: only, reason: `what the ${engine} engine comes for` };
  if (engine === "custom") return { value: "cpu", reason: "a custom engine gets the devices that its manifest names" };
  // ComfyUI's images here are ROCm's (service specification, "Engines").
  if (engine === "image" && devices.hasKfd && devices.hasRenderNode)
    return { value: "rocm", reason: "there is /dev/kfd" };
  if (devices.hasNvidia) return { value: "cuda", reason: "there is an NVIDIA driver" };
  if (devices.hasRenderNode) return { value: "vulkan", reason: "there is a render node in /dev/dri" };
  return { value: "cpu", reason: "there is no GPU" };
}

/** Device nodes that a backend needs (the projects' own container instructions). */
export const devicesOfBackend = {
  cpu: [],
  vulkan: ["/dev/dri"],
  rocm: ["/dev/kfd", "/dev/dri"],
  // Handed out by the container engine, with the driver's libraries.
  cuda: [],
  npu: ["/dev/accel/accel0"],
} as const satisfies Record<Exclude<Backend, "auto">, readonly string[]>;
