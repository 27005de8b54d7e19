import type { HardwareFacts } from "../api/hardware.ts";
import { probeCpu } from "./cpu.ts";
import { probeDevices } from "./devices.ts";
import { probeDisk } from "./disks.ts";
import { probeDrivers } from "./drivers.ts";
import { probeGpus } from "./gpus.ts";
import type { Machine } from "./machine.ts";
import { probeMemory } from "./memory.ts";
import { probeNpu } from "./npu.ts";
import { pciDevices } from "./pci.ts";
import { EvidenceReader } from "./evidence-reader.ts";

export interface ProbePlaces {
  readonly stateDir: string;
  readonly modelsDir: string;
}

/**
 * Probes the machine. Missing hardware is absent from the result, an unreadable source is listed in it: never rejects
 * for either. Vendors' programs are run until `signal` is aborted, which may take seconds; undefined: they are not run.
 */
export async function probeHardware(
  machine: Machine,
  { stateDir, modelsDir }: ProbePlaces,
  signal: AbortSignal | undefined,
): Promise<HardwareFacts> {
  const problems = new EvidenceReader(machine);
  const devices = await probeDevices(machine, problems);
  const pci = await pciDevices(problems);
  return {
    probed_at: machine.now().toISOString(),
    user: `uid ${machine.user.uid}, groups ${machine.user.groups.join(", ")}`,
    kernel: (await problems.text("/proc/sys/kernel/osrelease")) ?? null,
    cpu: await probeCpu(machine),
    memory: await probeMemory(machine),
    gpus: await probeGpus(machine, pci, devices, { signal, problems }),
    npu: await probeNpu(machine, pci, devices, problems),
    devices,
    disks: [await probeDisk(machine, "state", stateDir), await probeDisk(machine, "models", modelsDir)],
    drivers: await probeDrivers(problems),
    problems: problems.evidence,
  };
}
