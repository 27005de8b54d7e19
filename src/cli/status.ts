import { CommandError, type Client } from "./client.ts";
import { age, cell, isRecord, recordsIn, renderOne, type Format } from "./output.ts";
import { byHand } from "./slot-words.ts";
import { slotText } from "./slots.ts";

/** An overview of the service and its slots. */
export async function statusText(client: Client, format: Format): Promise<string> {
  const [status, health, slots] = await Promise.all([
    client.one("/api/status", "version"),
    client.one("/api/health/system", "status"),
    client.list("/api/slots"),
  ]);
  if (format === "json" || format === "yaml")
    return await renderOne({ status, health, slots: { object: "list", data: slots } }, format);
  const table = await slotText(slots, format);
  if (format === "name") return table;
  const lines = [`berth ${cell(status["version"])}, up ${age(status["uptime_seconds"])}, ${cell(health["status"])}`];
  const checks = isRecord(health["checks"]) ? health["checks"] : {};
  for (const [name, check] of Object.entries(checks)) {
    if (!isRecord(check) || check["status"] === "ok") continue;
    if (Array.isArray(check["counts"])) {
      const { troubleLines } = await import("./conditions.ts");
      lines.push(...(await troubleLines(client, recordsIn(check["counts"]), slots)));
      continue;
    }
    lines.push(`  ${name.replaceAll("_", " ")}: ${cell(check["status"])} ${describe(check)}`);
    if (Array.isArray(check["reasons"])) lines.push(...(await problems(client)));
  }
  for (const slot of slots) lines.push(...byHand(slot).map(({ text }) => `  ${cell(slot["name"])}: ${text}`));
  return `${lines.join("\n")}\n\n${table}`;
}

/** The problems of the manifests, each with its place; none where the token may not read them. */
async function problems(client: Client): Promise<string[]> {
  try {
    const answer = await client.send("POST", "/api/config/validate");
    return recordsIn(isRecord(answer) ? answer["diagnostics"] : undefined).map(({ file, line, column, message }) => {
      const place = [file, line, column].filter((part) => part !== undefined && part !== null).map(cell);
      return `    ${place.join(":")}: ${cell(message)}`;
    });
  } catch (error) {
    if (error instanceof CommandError) return [];
    throw error;
  }
}

function describe(check: Readonly<Record<string, unknown>>): string {
  const { reasons, failed, last, unexpected_ends: ends } = check;
  if (Array.isArray(reasons))
    return `${[...new Set(reasons.map(cell))].join(", ")}; \`berth config validate\` and the operator's log name the files`;
  if (Array.isArray(failed)) return failed.map(cell).join(", ");
  if (typeof check["free_bytes"] === "number") return `${Math.floor(check["free_bytes"] / 1024 ** 2)} MiB free`;
  const often =
    typeof ends === "number" && ends > 0
      ? `; operators have ended ${ends} times in the last ten minutes without being asked to: their log says why`
      : "";
  return last === undefined ? "" : `last heartbeat ${cell(last)}${often}`;
}
