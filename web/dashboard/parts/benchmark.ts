import type { BenchmarkView } from "../../../src/api/management/benchmark-view.ts";
import { time } from "../../shared/format.ts";

/** The first level of a result in one line, and whether it holds. An older server sends none. */
export function benchmarkText(last: BenchmarkView | null | undefined): string {
  const [level] = last?.levels ?? [];
  if (last === null || last === undefined || level === undefined) return "none: berth bench measures it";
  const each = level.tokens_per_second_each ?? level.tokens_per_second;
  const clients = level.clients === 1 ? "one client" : `${level.clients} clients`;
  const first = level.first_token_ms === null ? "" : `, first token after ${level.first_token_ms} ms`;
  const state = last.changed === null ? "" : ` (void: ${last.changed})`;
  return `${each} tokens/s with ${clients}${first}, on ${last.backend}, ${time(last.measured_at)}${state}`;
}
