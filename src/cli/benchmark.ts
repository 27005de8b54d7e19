import type { BenchmarkView } from "../api/management/benchmark-view.ts";
import { cell } from "./output.ts";
import type { Received } from "./received.ts";

type Last = Received<BenchmarkView> | null | undefined;

/** Tokens per second of one client, as a column of a table has them: `41.5`, or `41.5 (void)`. */
export function benchmarkCell(last: Last): string {
  const level = last?.levels?.[0];
  if (level === undefined) return "-";
  const each = cell(level.tokens_per_second_each ?? level.tokens_per_second);
  return typeof last?.changed === "string" ? `${each} (void)` : each;
}

/** A slot's last result: where it was measured, a line for each level, and whether it holds. */
export function benchmarkLines(last: Last): string[] {
  if (last === null || last === undefined) return [];
  const { measured_at: at, model, backend, runtime, changed } = last;
  const of = `${cell(at)} ${cell(model)} on ${cell(backend)}, ${cell(runtime)}`;
  const state = typeof changed === "string" ? `; void: ${cell(changed)}` : "";
  const lines = (last.levels ?? []).map((level) => {
    const { clients, first_token_ms: first, tokens_per_second_each: each, tokens_per_second: all } = level;
    const name = clients === 1 ? "1 client" : `${cell(clients)} clients`;
    return `  ${name.padEnd(14)}first token ${cell(first)} ms, ${cell(each)} tok/s each, ${cell(all)} tok/s in all`;
  });
  return [`${"last benchmark:".padEnd(20)}${of}${state}`, ...lines];
}
