import type { Observed } from "../../api/workload.ts";
import { firstOutput } from "../../runtimes/logs/first-output.ts";
import type { RuntimeSet } from "../../runtimes/set.ts";

/** Reads the first output of an engine, from its runtime or from the directory of logs. */
export function engineOutput(
  runtime: Pick<RuntimeSet, "firstOutput">,
  stateDir: string,
): (process: Observed) => Promise<string> {
  return async (process) => (await runtime.firstOutput(process)) ?? (await firstOutput(stateDir, process));
}
