import type { Config } from "../api/config.ts";
import type { HardwareFacts } from "../api/hardware.ts";
import type { GpuHoldings } from "../operator/memory.ts";

/** How this process looks at the machine it runs on. */
export async function lookOf(
  places: Pick<Config, "stateDir" | "modelsDir">,
): Promise<(asking: AbortSignal | undefined) => Promise<HardwareFacts>> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { probeHardware } = await import("../hardware/probe.ts");
  return (asking) => probeHardware(systemMachine(), places, asking);
}

/** How it asks what processes hold on GPUs of that machine. */
export async function holdingsHere(): Promise<GpuHoldings> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { gpuHoldings } = await import("../hardware/gpu-memory.ts");
  const machine = systemMachine();
  return (pids, signal) => gpuHoldings(machine, pids, signal);
}
