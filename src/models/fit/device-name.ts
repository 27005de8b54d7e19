import type { HardwareFacts } from "../../api/hardware.ts";

/** A device that the machine's probe cannot be asked about: an engine has named it. */
export const unknownDevice = "?";

/** The probe's name of a device that an engine has named: an engine numbers the GPUs that its back-end sees. */
export function deviceNamed(id: string, machine: Pick<HardwareFacts, "gpus"> | undefined): string {
  const gpus = (machine?.gpus ?? []).filter(({ backends }) => backends.length > 0);
  if (id === "host" || gpus.some((gpu) => gpu.id === id)) return id;
  const [only] = gpus;
  if (only !== undefined && gpus.length === 1) return only.id;
  const [, name = "", number] = /^(CUDA|ROCm|Vulkan)(\d+)$/.exec(id) ?? [];
  const seen = gpus.filter(({ backends }) => backends.some((backend) => backend === name.toLowerCase()));
  return seen[Number(number)]?.id ?? unknownDevice;
}
