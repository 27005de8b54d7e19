import type { Config } from "../api/config.ts";
import type { HardwareFacts } from "../api/hardware.ts";
import type { MachineReading } from "../api/machine-reading.ts";
import type { MachineReader } from "../hardware/machine-reader.ts";
import type { GpuHoldings } from "../operator/observe/memory.ts";

/** The probe of the machine that this process runs on. */
export async function hardwareProbe(
  places: Pick<Config, "stateDir" | "modelsDir">,
): Promise<(asking: AbortSignal | undefined) => Promise<HardwareFacts>> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { probeHardware } = await import("../hardware/probe.ts");
  return (asking) => probeHardware(systemMachine(), places, asking);
}

/** A reader of how busy that machine is. Its modules are loaded with the first reading. */
export function machineReader(): () => Promise<MachineReading> {
  const open = async (): Promise<MachineReader> => {
    const { systemMachine } = await import("../hardware/machine.ts");
    const { MachineReader } = await import("../hardware/machine-reader.ts");
    return new MachineReader(systemMachine());
  };
  let reader: Promise<MachineReader> | undefined;
  return async () => await (await (reader ??= open())).read();
}

/** The reader of GPU memory by process on that machine. */
export async function holdingsHere(): Promise<GpuHoldings> {
  const { systemMachine } = await import("../hardware/machine.ts");
  const { gpuHoldings } = await import("../hardware/gpu-memory.ts");
  const machine = systemMachine();
  return (pids, signal) => gpuHoldings(machine, pids, signal);
}
