import type { HardwareFacts } from "../api/hardware.ts";
import { lookAtCpu } from "./cpu.ts";
import { lookAtDevices } from "./devices.ts";
import { lookAtDisk } from "./disks.ts";
import { lookAtDrivers } from "./drivers.ts";
import { lookAtGpus } from "./gpus.ts";
import type { Machine } from "./machine.ts";
import { lookAtMemory } from "./memory.ts";
import { lookAtNpu } from "./npu.ts";
import { pciDevices } from "./pci.ts";
import { Witness } from "./witness.ts";

export interface ProbePlaces {
  readonly stateDir: string;
  readonly modelsDir: string;
}

/**
 * Looks at the machine. What is missing is absent from the answer, what cannot be read is said in it: never rejects for
 * either. Until `asking` is aborted vendors' programs are asked too, which may take seconds; undefined: they are not.
 */
export async function probeHardware(
  machine: Machine,
  { stateDir, modelsDir }: ProbePlaces,
  asking: AbortSignal | undefined,
): Promise<HardwareFacts> {
  const problems = new Witness(machine);
  const devices = await lookAtDevices(machine, problems);
  const pci = await pciDevices(problems);
  return {
    probed_at: machine.now().toISOString(),
    user: `uid ${machine.user.uid}, groups ${machine.user.groups.join(", ")}`,
    kernel: (await problems.text("/proc/sys/kernel/osrelease")) ?? null,
    cpu: await lookAtCpu(machine),
    memory: await lookAtMemory(machine),
    gpus: await lookAtGpus(machine, pci, devices, { asking, problems }),
    npu: await lookAtNpu(machine, pci, devices, problems),
    devices,
    disks: [await lookAtDisk(machine, "state", stateDir), await lookAtDisk(machine, "models", modelsDir)],
    drivers: await lookAtDrivers(problems),
    problems: problems.evidence,
  };
}
