import { chat } from "./chat.ts";
import { CommandError, type Client } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { cell, render, type Column, type Format } from "./output.ts";

export interface BenchOptions {
  readonly levels: readonly number[];
  /** Requests of each client at each level. */
  readonly requests: number;
  readonly maxTokens: number;
  readonly output: Format;
}

/** One streamed answer: seconds to its first token and to its end, and its tokens. */
interface Answer {
  readonly firstSeconds: number;
  readonly seconds: number;
  readonly tokens: number;
}

/** A shorter time between the first token and the end is that of one read, not of an engine. */
const leastSeconds = 0.005;

const columns: readonly Column[] = [
  { title: "CLIENTS", value: (row) => cell(row["clients"]) },
  { title: "REQUESTS", value: (row) => cell(row["requests"]) },
  { title: "FIRST TOKEN", value: (row) => `${cell(row["first_token_ms"])} ms` },
  { title: "SLOWEST", value: (row) => `${cell(row["slowest_first_token_ms"])} ms` },
  { title: "TOK/S EACH", value: (row) => cell(row["tokens_per_second_each"]) },
  { title: "TOK/S ALL", value: (row) => cell(row["tokens_per_second"]) },
];

/** `berth bench SLOT`. Prints the load time to standard error, and one row per level. Throws CommandError. */
export async function bench(context: CommandContext, slot: string, options: BenchOptions): Promise<void> {
  const client = await context.client();
  const ask = (client: Client, nth: number): Promise<Answer> => answer(client, slot, nth, options.maxTokens);
  // The first answer loads the slot, and is not counted.
  await ask(client, 0);
  const view = await client.one(`/api/slots/${encodeURIComponent(slot)}`, "name").catch((error: unknown) => {
    // A model of a provider is no slot.
    if (error instanceof CommandError && error.code === "slot.not_found") return undefined;
    throw error;
  });
  const loadSeconds = view?.["last_load_seconds"];
  if (typeof loadSeconds === "number") context.note(`the last load took ${loadSeconds.toFixed(1)} s\n`);
  const rows: Record<string, unknown>[] = [];
  let nth = 1;
  for (const clients of options.levels) {
    const began = performance.now();
    const answers = await Promise.all(
      Array.from({ length: clients }, async () => {
        const own: Answer[] = [];
        for (let turn = 0; turn < options.requests; turn += 1) own.push(await ask(client, (nth += 1)));
        return own;
      }),
    );
    rows.push(rowOf(clients, answers.flat(), (performance.now() - began) / 1000));
  }
  context.write(await render(rows, columns, options.output, "clients"));
}

/** Each prompt differs at its start, so that no engine has it in its cache. */
async function answer(client: Client, model: string, nth: number, maxTokens: number): Promise<Answer> {
  const messages = [{ role: "user", content: `${nth}. Count from one to one hundred in words.` }] as const;
  const began = performance.now();
  let firstSeconds = 0;
  let tokens = 0;
  for await (const piece of chat(client, { model, messages, maxTokens }, () => undefined)) {
    if (piece === "") continue;
    if (tokens === 0) firstSeconds = (performance.now() - began) / 1000;
    tokens += 1;
  }
  return { firstSeconds, seconds: (performance.now() - began) / 1000, tokens };
}

/** What `answers` of as many clients say of a level that took `seconds`. */
export function rowOf(clients: number, answers: readonly Answer[], seconds: number): Record<string, unknown> {
  const firsts = answers.map(({ firstSeconds }) => firstSeconds * 1000).toSorted((one, other) => one - other);
  const rates = answers
    // What came in one piece has no time between two tokens.
    .filter((each) => each.seconds - each.firstSeconds >= leastSeconds)
    .map((each) => (each.tokens - 1) / (each.seconds - each.firstSeconds))
    .toSorted((one, other) => one - other);
  const tokens = answers.reduce((sum, each) => sum + each.tokens, 0);
  const middle = (sorted: readonly number[]): number | null => sorted[sorted.length >> 1] ?? null;
  const rounded = (value: number | null, digits: number): number | null =>
    value === null ? null : Number(value.toFixed(digits));
  return {
    clients,
    requests: answers.length,
    first_token_ms: rounded(middle(firsts), 0),
    slowest_first_token_ms: rounded(firsts.at(-1) ?? null, 0),
    tokens_per_second_each: rounded(middle(rates), 1),
    tokens_per_second: rounded(tokens / Math.max(0.001, seconds), 1),
  };
}
