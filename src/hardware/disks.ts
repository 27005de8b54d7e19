import { dirname } from "node:path";
import type { Disk } from "../api/hardware.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import type { Machine } from "./machine.ts";
import { Witness } from "./witness.ts";

/** Room of the file system that holds the directory, or will once that is made. */
export async function lookAtDisk(machine: Machine, use: Disk["use"], path: string): Promise<Disk> {
  const witness = new Witness(machine);
  for (let place = path; ; place = dirname(place)) {
    try {
      const { totalBytes, freeBytes } = await machine.space(place);
      if (place !== path) witness.note(path, `does not exist yet: room of ${place}`);
      return {
        use,
        path,
        total_bytes: counted(totalBytes),
        free_bytes: counted(freeBytes),
        evidence: witness.evidence,
      };
    } catch (error) {
      if (errorCode(error) === "ENOENT" && place !== dirname(place)) continue;
      witness.note(place, `cannot be asked: ${errorCode(error) ?? errorMessage(error)}`);
      return { use, path, total_bytes: null, free_bytes: null, evidence: witness.evidence };
    }
  }
}

/** Some file systems that are no disks have more room than a computer can count. */
function counted(bytes: number): number | null {
  return Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : null;
}
