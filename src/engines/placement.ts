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

/** A machine without any known device. */
export const noDevices: Devices = { hasNvidia: false, hasRenderNode: false, hasKfd: false };

/** The devices of a probe that decide a backend: whether device files exist, not whether this user may open them. */
export function devicesOf({ devices }: Pick<HardwareFacts, "devices">): Devices {
  const has = (prefix: string): boolean => devices.some(({ path }) => path.startsWith(prefix));
  return { hasRenderNode: has("/dev/dri/renderD"), hasNvidia: has("/dev/nvidiactl"), hasKfd: has("/dev/kfd") };
}

/** Devices for which `auto` would have chosen that backend: for an engine that an earlier operator has started. */
export function devicesBehind(backend: string): Devices {
  const hasKfd = backend === "rocm";
  return { hasNvidia: backend === "cuda", hasRenderNode: hasKfd || backend === "vulkan", hasKfd };
}

const here = {
  rocm: "there is /dev/kfd",
  cuda: "there is an NVIDIA driver",
  vulkan: "there is a render node in /dev/dri",
  cpu: "there is no GPU",
} as const;

const podReasons = {
  rocm: "its Pod asks for an AMD GPU",
  cuda: "its Pod asks for an NVIDIA GPU",
  vulkan: "its Pod asks for a render node",
  cpu: "resources.extended asks for no GPU",
} as const;

/** The backend of a slot whose engine is a Pod: the operator's own machine says nothing about its devices. */
export function podBackend(spec: Pick<SlotSpec, "backend" | "engine" | "resources">): ReturnType<typeof backendOf> {
  const names = Object.keys(spec.resources.extended ?? {});
  const isRequested = (pattern: RegExp): boolean => names.some((name) => pattern.test(name));
  const hasKfd = isRequested(/^amd\.com\//);
  const hasRenderNode = hasKfd || isRequested(/^gpu\.intel\.com\/|\/dri/);
  return backendOf(spec, { hasNvidia: isRequested(/^nvidia\.com\//), hasRenderNode, hasKfd }, podReasons);
}

/** The backend of a slot, with the reason. Only `auto` depends on the machine. */
export function backendOf(
  { backend, engine }: Pick<SlotSpec, "backend" | "engine">,
  devices: Devices,
  why: Readonly<Record<"rocm" | "cuda" | "vulkan" | "cpu", string>> = here,
): { readonly value: Exclude<Backend, "auto">; readonly reason: string } {
  if (backend !== "auto") return { value: backend, reason: "the spec" };
  const fixed: Readonly<Partial<Record<EngineKind, Exclude<Backend, "auto">>>> = { npu: "npu", stt: "cpu", tts: "cpu" };
  const only = fixed[engine];
  if (only !== undefined) return { value: only, reason: `the only backend of the ${engine} engine` };
  if (engine === "custom") return { value: "cpu", reason: "a custom engine gets the devices that its manifest names" };
  // The shipped ComfyUI images are for ROCm (service specification, "Engines").
  if (engine === "image" && devices.hasKfd && devices.hasRenderNode) return { value: "rocm", reason: why.rocm };
  if (devices.hasNvidia) return { value: "cuda", reason: why.cuda };
  if (devices.hasRenderNode) return { value: "vulkan", reason: why.vulkan };
  return { value: "cpu", reason: why.cpu };
}

/** Device nodes that a backend needs (the projects' own container instructions). */
export const devicesOfBackend = {
  cpu: [],
  vulkan: ["/dev/dri"],
  rocm: ["/dev/kfd", "/dev/dri"],
  // The container engine passes these devices, with the driver's libraries.
  cuda: [],
  npu: ["/dev/accel/accel0"],
} as const satisfies Record<Exclude<Backend, "auto">, readonly string[]>;
