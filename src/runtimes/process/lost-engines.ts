import type { ProcessRecord } from "../../api/process-record.ts";
import { bootId } from "../../lib/boot-id.ts";
import { pidNamespace, readProc, type ProcEntry } from "../../lib/process-identity.ts";
import { labelOf, type Label, type Trust } from "./label.ts";
import { listProcs, startedAt, userOf } from "./proc.ts";
import { recordKey } from "./records.ts";

/**
 * Records for engines of this instance that have none: the operator ended between starting one and writing its record,
 * or the record was lost. None of them is adopted, since anybody can copy a label: each counts as exited, and is ended
 * by its label before the slot starts again. A process of a user that engines do not run as is ignored.
 */
export function findLostEngines(instance: string, known: readonly ProcessRecord[], trust: Trust): ProcessRecord[] {
  const starts = new Set(known.map(({ start }) => start));
  const oldest = new Map<string, { readonly label: Label; readonly entry: ProcEntry; readonly uid: number }>();
  for (const entry of listProcs()) {
    const label = labelOf(entry.pid);
    if (label?.instance !== instance || entry.pid === process.pid || starts.has(label.start)) continue;
    const uid = userOf(entry.pid);
    if (uid === undefined || !trust.mayEnd(label, entry.pid)) continue;
    const key = recordKey(label);
    const other = oldest.get(key)?.entry;
    if (other === undefined || isBefore(entry, other)) oldest.set(key, { label, entry, uid });
  }
  const lost: ProcessRecord[] = [];
  for (const [key, { label, entry, uid }] of oldest) {
    // A recorded engine that lives is the one in force.
    const record = known.find((each) => recordKey(each) === key);
    if (record !== undefined && record.exit === undefined && isPresent(record, trust)) continue;
    const at = new Date().toISOString();
    lost.push({
      schema: 1,
      ...label,
      uid,
      bootId: bootId(),
      pidNamespace: pidNamespace(),
      pid: entry.pid,
      startTime: entry.startTime,
      startedAt: startedAt(entry.startTime).toISOString(),
      logOffset: 0,
      exit: { reason: "Unknown", message: `process ${entry.pid} was left without a record, and is ended`, at },
    });
  }
  return lost;
}

function isBefore(one: ProcEntry, other: ProcEntry): boolean {
  const apart = Number(one.startTime) - Number(other.startTime);
  return apart === 0 ? one.pid < other.pid : apart < 0;
}

function isPresent(record: ProcessRecord, trust: Trust): boolean {
  if (record.bootId !== bootId() || record.pidNamespace !== pidNamespace()) return false;
  return readProc(record.pid)?.startTime === record.startTime && trust.isRecorded(record);
}
