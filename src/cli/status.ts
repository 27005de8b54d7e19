import type { Health } from "../api/management/health-view.ts";
import { CommandError, type Client } from "./client.ts";
import { age, cell, renderOne, type Format } from "./output.ts";
import type { Received } from "./received.ts";
import { byHand } from "./slot-words.ts";
import { slotText } from "./slots.ts";

type Checks = Health["checks"];
/** A check of any name, with the fields of all. */
type Check = Received<
  Partial<Checks["store"] & Checks["operator_heartbeat"] & Checks["disk"] & Checks["slots"] & Checks["conditions"]>
>;

/** An overview of the service and its slots. */
export async function statusText(client: Client, format: Format): Promise<string> {
  const [status, health, slots] = await Promise.all([
    client.one("GET /api/status", "version"),
    client.one("GET /api/health/system", "status"),
    client.list("GET /api/slots"),
  ]);
  if (format === "json" || format === "yaml")
    return await renderOne({ status, health, slots: { object: "list", data: slots } }, format);
  const table = await slotText(slots, format);
  if (format === "name") return table;
  const lines = [`berth ${cell(status.version)}, up ${age(status.uptime_seconds)}, ${cell(health.status)}`];
  for (const [name, check] of Object.entries<Check | null | undefined>(health.checks ?? {})) {
    if (check === undefined || check === null || check.status === "ok") continue;
    if (check.counts !== undefined && check.counts !== null) {
      const { troubleLines } = await import("./conditions.ts");
      lines.push(...(await troubleLines(client, check.counts, slots)));
      continue;
    }
    lines.push(`  ${name.replaceAll("_", " ")}: ${cell(check.status)} ${describe(check)}`);
    if (check.reasons !== undefined && check.reasons !== null) lines.push(...(await problems(client)));
  }
  for (const slot of slots) lines.push(...byHand(slot).map(({ text }) => `  ${cell(slot.name)}: ${text}`));
  return `${lines.join("\n")}\n\n${table}`;
}

/** The problems of the manifests, each with its place; none where the token may not read them. */
async function problems(client: Client): Promise<string[]> {
  try {
    const { diagnostics } = await client.call("POST /api/config/validate");
    return (diagnostics ?? []).map(({ file, line, column, message }) => {
      const place = [file, line, column].filter((part) => part !== undefined && part !== null).map(cell);
      return `    ${place.join(":")}: ${cell(message)}`;
    });
  } catch (error) {
    if (error instanceof CommandError) return [];
    throw error;
  }
}

function describe({ reasons, failed, last, unexpected_ends: ends, free_bytes: free }: Check): string {
  if (reasons !== undefined && reasons !== null)
    return `${[...new Set(reasons.map(cell))].join(", ")}; \`berth config validate\` and the operator's log name the files`;
  if (failed !== undefined && failed !== null) return failed.map(cell).join(", ");
  if (typeof free === "number") return `${Math.floor(free / 1024 ** 2)} MiB free`;
  const often =
    typeof ends === "number" && ends > 0
      ? `; operators have ended ${ends} times in the last ten minutes without being asked to: their log says why`
      : "";
  return typeof last !== "string" ? "" : `last heartbeat ${cell(last)}${often}`;
}
