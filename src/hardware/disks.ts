import { dirname } from "node:path";
import type { Disk } from "../api/hardware.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import type { Machine } from "./machine.ts";
import { EvidenceReader } from "./evidence-reader.ts";

/** Space of the file system that holds the directory, or will hold it once it is made. */
export async function probeDisk(machine: Machine, use: Disk["use"], path: string): Promise<Disk> {
  const reader = new EvidenceReader(machine);
  for (let place = path; ; place = dirname(place)) {
    try {
      const { totalBytes, freeBytes } = await machine.space(place);
      if (place !== path) reader.note(path, `does not exist yet: room of ${place}`);
      return {
        use,
        path,
        total_bytes: counted(totalBytes),
        free_bytes: counted(freeBytes),
        evidence: reader.evidence,
      };
    } catch (error) {
      if (errorCode(error) === "ENOENT" && place !== dirname(place)) continue;
      reader.note(place, `cannot be read: ${errorCode(error) ?? errorMessage(error)}`);
      return { use, path, total_bytes: null, free_bytes: null, evidence: reader.evidence };
    }
  }
}

/** Some file systems that are no disks report more space than a number can hold exactly. */
function counted(bytes: number): number | null {
  return Number.isSafeInteger(bytes) && bytes >= 0 ? bytes : null;
}
