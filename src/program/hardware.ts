import type { Config } from "../api/config.ts";
import type { HardwareFacts } from "../api/hardware.ts";
import type { GpuHoldings } from "../operator/observe/memory.ts";

/** The probe of the machine that this process runs on. */
export async function hardwareProbe(
  places: Pick<Config, "stateDir" | "modelsDir">,
): Promise<(asking: AbortSignal | undefined) => Promise<HardwareFacts>> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { probeHardware } = await import("../hardware/probe.ts");
  return (asking) => probeHardware(systemMachine(), places, asking);
}

/** The reader of GPU memory by process on that machine. */
export async function holdingsHere(): Promise<GpuHoldings> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { gpuHoldings } = await import("../hardware/gpu-memory.ts");
  const machine = systemMachine();
  return (pids, signal) => gpuHoldings(machine, pids, signal);
}
