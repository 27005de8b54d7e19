import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { bytes, cell, isRecord, recordsIn, render, type Column } from "./output.ts";
import { slotColumns } from "./slots.ts";

/** The interval between two samples: rates are over this time. */
const everyMs = 1000;

interface Sample {
  readonly at: number;
  readonly slots: readonly Record<string, unknown>[];
  /** Tokens of answers so far, by slot. */
  readonly tokens: ReadonlyMap<string, number>;
}

const columns: readonly Column[] = [
  ...slotColumns.filter(({ title }) => title === "NAME" || title === "STATE" || title === "MODEL"),
  { title: "IN-FLIGHT", value: (row) => cell(row["in_flight"]) },
  { title: "QUEUED", value: (row) => cell(row["queued"]) },
  { title: "HELD", value: (row) => cell(row["held"]) },
  { title: "TOK/S", value: (row) => cell(row["tokens_per_second"]) },
  { title: "MEMORY", value: (row) => memoryOf(row, "host") },
  { title: "GPU", value: (row) => memoryOf(row, "gpu") },
];

/** `berth top`: the slots with their rates, again each second, `count` times or until it is interrupted. */
export async function top(context: CommandContext, count: number): Promise<void> {
  const client = await context.client();
  const isScreen = context.output.isTTY === true;
  let before = await sample(client);
  for (let shown = 0; shown < count; shown += 1) {
    await delay(everyMs);
    const now = await sample(client);
    const text = await render(rowsOf(before, now), columns, "table", "name");
    context.write(isScreen ? `\u001B[2J\u001B[H${text}` : shown === 0 ? text : `\n${text}`);
    before = now;
  }
}

async function sample(client: Client): Promise<Sample> {
  const [slots, page] = await Promise.all([client.list("/api/slots"), client.text("/api/metrics")]);
  return { at: performance.now(), slots, tokens: tokensOf(page) };
}

/** The counters of a metric page, by slot. */
export function tokensOf(page: string): ReadonlyMap<string, number> {
  const lines = page.matchAll(/^berth_tokens_total\{slot="([^"]+)",direction="out"\} (\S+)$/gm);
  return new Map([...lines].map(([, slot = "", value]) => [slot, Number(value)]));
}

/** Slots with requests first, then the others in their own order. */
export function rowsOf(before: Sample, now: Sample): readonly Record<string, unknown>[] {
  const seconds = Math.max(0.001, (now.at - before.at) / 1000);
  const rows = now.slots.map((slot) => {
    const name = String(slot["name"]);
    const grown = (now.tokens.get(name) ?? 0) - (before.tokens.get(name) ?? 0);
    // A gateway that has started anew counts from zero.
    return { ...slot, tokens_per_second: grown < 0 ? null : Number((grown / seconds).toFixed(1)) };
  });
  const isBusy = (row: Record<string, unknown>): boolean =>
    ["in_flight", "queued", "held"].some((field) => typeof row[field] === "number" && row[field] > 0);
  return rows.toSorted((one, other) => Number(isBusy(other)) - Number(isBusy(one)));
}

function memoryOf(row: Readonly<Record<string, unknown>>, place: "host" | "gpu"): string {
  const { memory } = row;
  if (!isRecord(memory)) return "-";
  if (place === "host") return typeof memory["host_bytes"] === "number" ? bytes(memory["host_bytes"]) : "-";
  const devices = recordsIn(memory["devices"]);
  const sum = devices.reduce((total, device) => total + (typeof device["bytes"] === "number" ? device["bytes"] : 0), 0);
  return devices.length === 0 ? "-" : bytes(sum);
}
