import type { BenchmarkBody } from "../api/management/benchmark-view.ts";
import type { SlotDetail } from "../api/management/views.ts";
import { pieces } from "./chat.ts";
import { CommandError, type Client } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { cell, render, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";

export interface BenchOptions {
  readonly levels: readonly number[];
  /** Requests of each client at each level. */
  readonly requests: number;
  readonly maxTokens: number;
  readonly output: Format;
}

type View = Received<SlotDetail>;
type Level = BenchmarkBody["levels"][number];

/** One streamed answer: seconds to its first token and to its end, and its tokens, thoughts included. */
interface Answer {
  readonly firstSeconds: number;
  readonly seconds: number;
  readonly tokens: number;
}

/** A shorter time between the first token and the end is that of one read, not of an engine. */
const leastSeconds = 0.005;

const columns: readonly Column<Level>[] = [
  { title: "CLIENTS", value: (row) => cell(row.clients) },
  { title: "REQUESTS", value: (row) => cell(row.requests) },
  { title: "FIRST TOKEN", value: (row) => `${cell(row.first_token_ms)} ms` },
  { title: "SLOWEST", value: (row) => `${cell(row.slowest_first_token_ms)} ms` },
  { title: "TOK/S EACH", value: (row) => cell(row.tokens_per_second_each) },
  { title: "TOK/S ALL", value: (row) => cell(row.tokens_per_second) },
];

/**
 * `berth bench SLOT`. Prints the load time to standard error, and one row per level. Throws CommandError, also where no
 * answer of a level has a token.
 */
export async function bench(context: CommandContext, slot: string, options: BenchOptions): Promise<void> {
  const client = await context.client();
  // The first answer loads the slot, and is not counted.
  await answer(client, slot, options.maxTokens);
  const view = await viewOf(client, slot);
  const loadSeconds = view?.last_load_seconds;
  if (typeof loadSeconds === "number") context.note(`the last load took ${loadSeconds.toFixed(1)} s\n`);
  const rows: Level[] = [];
  for (const clients of options.levels) {
    const began = performance.now();
    const answers = await Promise.all(
      Array.from({ length: clients }, async () => {
        const own: Answer[] = [];
        for (let turn = 0; turn < options.requests; turn += 1) own.push(await answer(client, slot, options.maxTokens));
        return own;
      }),
    );
    const seconds = (performance.now() - began) / 1000;
    const all = answers.flat();
    const empty = all.filter(({ tokens }) => tokens === 0).length;
    if (empty === all.length) throw withoutTokens(slot, clients, options.maxTokens);
    if (empty > 0) context.note(`${empty} of ${all.length} answers to ${clients} clients had no token\n`);
    rows.push(rowOf(clients, all, seconds));
  }
  context.write(await render(rows, columns, options.output, "clients"));
  if (view !== undefined) context.note(`${await keep(client, view, { maxTokens: options.maxTokens, levels: rows })}\n`);
}

function withoutTokens(slot: string, clients: number, maxTokens: number): CommandError {
  const message = `no answer of ${slot} to ${clients} ${clients === 1 ? "client" : "clients"} had a token: there is nothing to measure`;
  const next = `look at one answer of at most ${maxTokens} tokens: berth chat ${slot} hi --max-tokens ${maxTokens}`;
  return new CommandError("bench.empty", message, next);
}

/** The slot of that name; undefined: a model of a provider is no slot. Throws CommandError. */
async function viewOf(client: Client, slot: string): Promise<View | undefined> {
  return await client.one("GET /api/slots/{name}", "name", { params: { name: slot } }).catch((error: unknown) => {
    if (error instanceof CommandError && error.code === "slot.not_found") return undefined;
    throw error;
  });
}

/** Has the result kept as the slot's last, unless another engine answered at its end. What became of it, for a person. */
async function keep(
  client: Client,
  before: View,
  { maxTokens, levels }: { readonly maxTokens: number; readonly levels: readonly Level[] },
): Promise<string> {
  const name = before.name ?? "";
  try {
    const after = await viewOf(client, name);
    if (after === undefined || engineOf(after) !== engineOf(before))
      return "the result is not kept: the engine was replaced while it was measured";
    const body = { model: after.model ?? undefined, max_tokens: maxTokens, levels };
    await client.call("POST /api/slots/{name}/benchmark", { params: { name }, body });
    return `the result is kept: \`berth slot show ${name}\``;
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    return `the result is not kept: ${error.message}`;
  }
}

/** Equal as long as the slot's processes are the same ones, with the same model. */
function engineOf({ model, processes }: View): string {
  const starts = processes?.map(({ startedAt }) => startedAt);
  return JSON.stringify([model, starts]);
}

/** Each prompt begins with a word that no prompt before had, in this run or another: no cache helps. */
async function answer(client: Client, model: string, maxTokens: number): Promise<Answer> {
  const word = Math.random().toString(36).slice(2, 10);
  const messages = [{ role: "user", content: `${word}: count from one to one hundred in words.` }] as const;
  const began = performance.now();
  let firstSeconds = 0;
  let tokens = 0;
  for await (const _piece of pieces(client, { model, messages, maxTokens }, () => undefined)) {
    if (tokens === 0) firstSeconds = (performance.now() - began) / 1000;
    tokens += 1;
  }
  return { firstSeconds, seconds: (performance.now() - began) / 1000, tokens };
}

/** The row of a level that took `seconds`, from the `answers` of its clients: one of them at least has a token. */
export function rowOf(clients: number, answers: readonly Answer[], seconds: number): Level {
  const spoken = answers.filter(({ tokens }) => tokens > 0);
  const firsts = spoken.map(({ firstSeconds }) => firstSeconds * 1000).toSorted((one, other) => one - other);
  const rates = spoken
    // An answer in one piece has no time between two tokens.
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
    tokens_per_second: Number((tokens / Math.max(0.001, seconds)).toFixed(1)),
  };
}
