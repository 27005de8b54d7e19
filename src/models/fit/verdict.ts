import type { FitStage } from "../../api/fit.ts";
import { byteText } from "../../api/byte-text.ts";
import type { Budget } from "./budget.ts";
import { reservedPart, type Need, type Requirement } from "./need.ts";

/** Whether an engine can be loaded here. */
export interface Verdict {
  /** `busy`: the engine would fit if other programs freed memory; `unknown`: a needed device has no known budget. */
  readonly kind: "fits" | "busy" | "does_not_fit" | "unknown";
  /** `busy` only as long as other slots are being loaded. */
  readonly isReserved?: boolean;
  /** The device that decides the result. */
  readonly device: string;
  readonly needBytes: number;
  readonly budgetBytes: number | undefined;
  /** The sum, for people. */
  readonly message: string;
  /** The part that decides is what the manifest reserves: no smaller model would help. */
  readonly isByManifest?: true;
}

/** The largest relative error by which an estimate is too high. A smaller excess over the budget is not refused. */
const doubt: Readonly<Record<FitStage, number>> = { declared: 0, header: 0.03, engine: 0.01, measured: 0 };

/**
 * Compares need and budget of each device; the worst device decides. Mapped files count as needed memory: an engine that
 * cannot keep its weights in memory reads them again for every token. `ownBytes`: the memory of the slot's present
 * engine, which is freed before the next engine starts.
 */
export function judge(
  { stage, needs }: Requirement,
  budgets: readonly Budget[],
  ownBytes: ReadonlyMap<string, number> = new Map(),
): Verdict {
  const judged = needs.map((need): Verdict => {
    const budget = budgets.find(({ id }) => id === need.id);
    const needBytes = need.bytes;
    const byManifest = need.parts.some(({ name }) => name === reservedPart) ? { isByManifest: true as const } : {};
    const base = { device: need.id, needBytes, budgetBytes: budget?.totalBytes, ...byManifest };
    if (budget === undefined) {
      return { kind: "unknown", ...base, message: `${sumText(need)} on ${need.id}; what it has is not known` };
    }
    const least = needBytes * (1 - doubt[stage]);
    const { totalBytes, reason } = budget;
    if (least > totalBytes) {
      const message = `${sumText(need)} on ${need.id}, which has ${byteText(totalBytes)} (${reason})`;
      return { kind: "does_not_fit", ...base, message };
    }
    const free = budget.freeBytes === undefined ? undefined : budget.freeBytes + (ownBytes.get(need.id) ?? 0);
    if (free !== undefined && least > free) {
      const message = `${sumText(need)} on ${need.id}, which has ${byteText(free)} free of ${byteText(totalBytes)}${reservedText(budget)}`;
      const isReserved = least <= free + (budget.reserved?.bytes ?? 0);
      return { kind: "busy", isReserved, ...base, budgetBytes: free, message };
    }
    return { kind: "fits", ...base, message: `${sumText(need)} on ${need.id}, which has ${byteText(totalBytes)}` };
  });
  judged.push(...sharedVerdict(stage, needs, budgets));
  const ranks = ["does_not_fit", "busy", "unknown", "fits"] as const;
  for (const kind of ranks) {
    const found = judged
      .filter((verdict) => verdict.kind === kind)
      .toSorted((one, other) => fullness(other) - fullness(one));
    if (found[0] !== undefined) return found[0];
  }
  return { kind: "unknown", device: "host", needBytes: 0, budgetBytes: undefined, message: "nothing is known of it" };
}

/** A GPU with shared memory and the processor take the same memory, so the sum of both needs must fit too. */
function sharedVerdict(stage: FitStage, needs: readonly Need[], budgets: readonly Budget[]): readonly Verdict[] {
  const machineBytes = budgets.find((budget) => budget.machineBytes !== undefined)?.machineBytes;
  const own = needs.filter(
    ({ id }) => id === "host" || budgets.find((budget) => budget.id === id)?.machineBytes !== undefined,
  );
  const needBytes = own.reduce((sum, { bytes }) => sum + bytes, 0);
  if (machineBytes === undefined || needBytes * (1 - doubt[stage]) <= machineBytes) return [];
  const parts = own.map(({ id, bytes }) => `${byteText(bytes)} on ${id}`).join(", ");
  const message = `needs ${byteText(needBytes)} (${parts}), which share the machine's memory: engines may take ${byteText(machineBytes)} of it`;
  return [{ kind: "does_not_fit", device: "host", needBytes, budgetBytes: machineBytes, message }];
}

function fullness({ needBytes, budgetBytes = Infinity }: Verdict): number {
  return needBytes / budgetBytes;
}

function reservedText({ reserved }: Budget): string {
  if (reserved === undefined) return "";
  const { bytes, slots } = reserved;
  const which = slots.length === 1 ? `slot ${slots[0]}, which is` : `slots ${slots.join(", ")}, which are`;
  return `, beside ${byteText(bytes)} for ${which} being loaded`;
}

/** `needs 9.2 GiB (weights 4.3 GiB, context 4.0 GiB, work 116 MiB, driver 600 MiB)`. */
function sumText({ bytes, parts }: Need): string {
  const [only = { name: "nothing" }] = parts;
  const sum = parts.map((part) => `${part.name} ${byteText(part.bytes)}`).join(", ");
  return `needs ${byteText(bytes)} (${parts.length > 1 ? sum : only.name})`;
}
