import type { ProcessRecord } from "../../api/process-record.ts";
import { loopbackHost, type Observed } from "../../api/workload.ts";

/** The observation of a process, by its record. */
export function observed(record: ProcessRecord, port: Pick<Observed, "isListening" | "isPortTaken">): Observed {
  const { slot, role, ordinal, hash, pid, bearer } = record;
  const startedAt = new Date(record.startedAt);
  const secret = bearer === undefined ? {} : { bearer };
  return {
    slot,
    role,
    ordinal,
    hash,
    host: loopbackHost,
    port: record.port,
    phase: "running",
    ...port,
    startedAt,
    ...secret,
    id: { pid },
  };
}
