import { mkdir } from "node:fs/promises";
import type { HostPorts } from "../host-ports.ts";
import { labelOf } from "./label.ts";
import { listeningInodes, listeningPorts, listProcs, ownsSocket } from "./proc.ts";
import { readRecords, readRecordSync } from "./records.ts";

/** `directory` holds the records of processes. */
export function hostPorts(directory: string): HostPorts {
  return {
    listening: () => listeningPorts("/proc/net"),
    /** Expensive only with a listener: then the record shows whether the listener is the process's own engine. */
    isTakenByStranger(port, process) {
      const inodes = listeningInodes(port);
      if (inodes.size === 0) return false;
      const start = readRecordSync(directory, process)?.start;
      return (
        start === undefined || !listProcs().some(({ pid }) => labelOf(pid)?.start === start && ownsSocket(pid, inodes))
      );
    },
    async recorded() {
      await mkdir(directory, { recursive: true });
      return (await readRecords(directory)).flatMap(({ record }) => {
        if (record === undefined) return [];
        const { slot, role, ordinal, port, exit } = record;
        return [{ slot, role, ordinal, port, hasEnded: exit !== undefined }];
      });
    },
  };
}
