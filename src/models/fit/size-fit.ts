import { byteText } from "../../api/byte-text.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import { deviceFor, type HostFit } from "./host-fit.ts";

/** Context, work and program in addition to the weights, for a short context. */
const besideShare = 1 / 8;
const besideBytes = 512 * 1024 ** 2;

/**
 * Whether a machine with nothing else on it can hold a model of which only the size is known. A rough figure: the header of
 * the model, which is not read, says more.
 */
export function sizeFit(
  sizeBytes: number,
  hardware: Pick<HardwareFacts, "memory" | "gpus">,
  backend: string | undefined,
): Pick<HostFit, "verdict" | "message" | "needBytes" | "budgetBytes"> {
  const needBytes = Math.round(sizeBytes * (1 + besideShare) + besideBytes);
  const { budgets } = deviceFor(hardware, backend);
  const need = `needs about ${byteText(needBytes)}, by its size alone`;
  const [first, ...others] = budgets;
  if (first === undefined) {
    return { verdict: "unknown", message: `${need}; the memory here is not known`, needBytes, budgetBytes: undefined };
  }
  const { totalBytes, machineBytes } = first;
  if (needBytes <= totalBytes) {
    return {
      verdict: "fits",
      message: `${need}; ${first.id} has ${byteText(totalBytes)}`,
      needBytes,
      budgetBytes: totalBytes,
    };
  }
  // A GPU with shared memory and the processor take the same memory.
  const budgetBytes = machineBytes ?? others.reduce((sum, other) => sum + other.totalBytes, totalBytes);
  if (first.kind !== "host" && needBytes <= budgetBytes) {
    const message = `${need}; ${first.id} has ${byteText(totalBytes)}: a part of it computes on the processor, which is slower`;
    return { verdict: "fits_with", message, needBytes, budgetBytes };
  }
  const lack = byteText(needBytes - budgetBytes);
  return {
    verdict: "does_not_fit",
    message: `${need}, of ${byteText(budgetBytes)}: ${lack} too much`,
    needBytes,
    budgetBytes,
  };
}
