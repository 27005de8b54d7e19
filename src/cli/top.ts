import { setTimeout as delay } from "node:timers/promises";
import { wholeText, type Client } from "./client.ts";
import type { CommandContext } from "./context.ts";
import { bytes, cell, render, type Column } from "./output.ts";
import type { SlotRow } from "./slot-words.ts";
import { slotColumns } from "./slots.ts";

/** The interval between two samples: rates are over this time. */
const everyMs = 1000;

/** A slot with the rate of its answers; null: not known. */
type Row = SlotRow & { readonly tokens_per_second: number | null };

interface Sample {
  readonly at: number;
  readonly slots: readonly SlotRow[];
  /** Tokens of answers so far, by slot. */
  readonly tokens: ReadonlyMap<string, number>;
}

const columns: readonly Column<Row>[] = [
  ...slotColumns.filter(({ title }) => title === "NAME" || title === "STATE" || title === "MODEL"),
  { title: "IN-FLIGHT", value: (row) => cell(row.in_flight) },
  { title: "QUEUED", value: (row) => cell(row.queued) },
  { title: "HELD", value: (row) => cell(row.held) },
  { title: "TOK/S", value: (row) => cell(row.tokens_per_second) },
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
  const [slots, page] = await Promise.all([
    client.list("GET /api/slots"),
    client.open("GET /api/metrics").then(wholeText),
  ]);
  return { at: performance.now(), slots, tokens: tokensOf(page) };
}

/** The counters of a metric page, by slot. */
export function tokensOf(page: string): ReadonlyMap<string, number> {
  const lines = page.matchAll(/^berth_tokens_total\{slot="([^"]+)",direction="out"\} (\S+)$/gm);
  return new Map([...lines].map(([, slot = "", value]) => [slot, Number(value)]));
}

/** Slots with requests first, then the others in their own order. */
export function rowsOf(before: Sample, now: Sample): readonly Row[] {
  const seconds = Math.max(0.001, (now.at - before.at) / 1000);
  const rows = now.slots.map((slot) => {
    const name = String(slot.name);
    const grown = (now.tokens.get(name) ?? 0) - (before.tokens.get(name) ?? 0);
    // A gateway that has started anew counts from zero.
    return { ...slot, tokens_per_second: grown < 0 ? null : Number((grown / seconds).toFixed(1)) };
  });
  const isBusy = ({ in_flight: inFlight, queued, held }: Row): boolean =>
    (inFlight ?? 0) + (queued ?? 0) + (held ?? 0) > 0;
  return rows.toSorted((one, other) => Number(isBusy(other)) - Number(isBusy(one)));
}

function memoryOf({ memory }: SlotRow, place: "host" | "gpu"): string {
  if (place === "host") return bytes(memory?.host_bytes);
  const devices = memory?.devices ?? [];
  const sum = devices.reduce((total, device) => total + (device.bytes ?? 0), 0);
  return devices.length === 0 ? "-" : bytes(sum);
}
