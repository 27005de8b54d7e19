import type { Benchmark, BenchmarkBasis, LastBenchmark } from "../../api/benchmark.ts";
import type { SlotStatus } from "../../api/status.ts";
import type { SlotInput } from "../plan/input.ts";
import type { Outcome } from "./outcome.ts";

/** The result of a request that is handled now, else the kept one, with what has changed since it was measured. */
export function lastBenchmarkOf(
  { requests, basis = {}, held }: Pick<SlotInput, "requests" | "basis" | "held">,
  before: SlotStatus,
  { handledRequests }: Pick<Outcome, "handledRequests">,
): Pick<SlotStatus, "lastBenchmark"> {
  const request = requests.find(({ kind }) => kind === "benchmark");
  const isNew =
    request !== undefined &&
    handledRequests["benchmark"] === request.token &&
    before.handledRequests["benchmark"] !== request.token;
  const known =
    isNew && request.benchmark !== undefined ? withBasis(request.benchmark, basis, before) : before.lastBenchmark;
  if (known === undefined) return {};
  const { changed: former, ...result } = known;
  const changed = changeSince(result, basis, held.ref) ?? (isWhole(result.of, basis) ? undefined : former);
  return { lastBenchmark: { ...result, ...(changed === undefined ? {} : { changed }) } };
}

/** The engine that was measured has read the model's file as it was at its start. */
function withBasis(benchmark: Benchmark, basis: BenchmarkBasis, { decisions }: SlotStatus): LastBenchmark {
  const loaded = decisions["modelFingerprint"]?.value;
  return { ...benchmark, of: { ...basis, ...(loaded === undefined ? {} : { modelFile: loaded }) } };
}

const parts = [
  ["modelFile", "the model's file has changed"],
  ["engine", "the engine has changed"],
  ["settings", "the slot's settings have changed"],
  ["hardware", "the machine's hardware or drivers have changed"],
] as const satisfies readonly (readonly [keyof BenchmarkBasis, string])[];

function changeSince({ model, of }: LastBenchmark, now: BenchmarkBasis, ref: string | undefined): string | undefined {
  if (model !== undefined && ref !== undefined && model !== ref) return `the slot holds ${ref} now`;
  return parts.find(([part]) => of[part] !== undefined && now[part] !== undefined && of[part] !== now[part])?.[1];
}

/** Every fact on which the result depends is known. */
function isWhole(of: BenchmarkBasis, now: BenchmarkBasis): boolean {
  return parts.every(([part]) => of[part] === undefined || now[part] !== undefined);
}
