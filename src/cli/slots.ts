import { benchmarkCell, benchmarkLines } from "./benchmark.ts";
import { choiceLines } from "./chosen-model.ts";
import type { SlotDetail } from "../api/management/views.ts";
import { failure, wholeText, type Client } from "./client.ts";
import { events } from "./events.ts";
import { age, bytes, cell, isRecord, printable, render, renderOne, type Column, type Format } from "./output.ts";
import { byHand, foldedSlots, readyCell, stateLine, type SlotRow } from "./slot-words.ts";

type Process = NonNullable<SlotRow["processes"]>[number];

function lastError({ last_error: error }: SlotRow): string {
  const line = cell(error?.message);
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

function stateColour(state: string): "green" | "yellow" | "red" | undefined {
  if (["ready", "serving", "idle"].includes(state)) return "green";
  if (state === "error") return "red";
  return state === "offline" ? undefined : "yellow";
}

export const slotColumns: readonly Column<SlotRow>[] = [
  { title: "NAME", value: (row) => cell(row.name) },
  { title: "STATE", value: (row) => cell(row.state), colour: stateColour },
  { title: "READY", value: readyCell },
  { title: "MODEL", value: (row) => cell(row.model) },
  { title: "ENGINE", isWide: true, value: (row) => cell(row.engine) },
  { title: "RUNTIME", isWide: true, value: (row) => cell(row.runtime) },
  { title: "PORT", value: (row) => cell(row.port) },
  { title: "RESTARTS", value: (row) => cell(row.restarts) },
  { title: "IN-FLIGHT", isWide: true, value: (row) => cell(row.in_flight) },
  { title: "UP", value: (row) => age(row.uptime_seconds) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row.last_benchmark) },
  { title: "LAST ERROR", isWide: true, value: lastError },
];

/** `berth slot list`. Throws CommandError. */
export async function slotTable(client: Client, format: Format): Promise<string> {
  return await slotText(await client.list("GET /api/slots"), format);
}

/** Slots in the wanted form; for a person, the built-in slots that nobody has configured are one line below the table. */
export async function slotText(slots: readonly SlotRow[], format: Format): Promise<string> {
  if (format !== "table" && format !== "wide") return await render(slots, slotColumns, format, "name");
  const { rows, others } = foldedSlots(slots);
  return `${await render(rows, slotColumns, format, "name")}${others}`;
}

/** One slot for a person: its fields, its conditions, and its last transitions. */
export async function slotShow(client: Client, name: string, format: Format): Promise<string> {
  const slot = await client.one("GET /api/slots/{name}", "name", { params: { name } });
  if (format === "json" || format === "yaml") return await renderOne(slot, format);
  if (format === "name") return `${cell(slot.name)}\n`;
  const fields = [
    "name",
    "state",
    "model",
    "engine",
    "backend",
    "runtime",
    "endpoint",
    "image",
    "image_digest",
    "enabled",
    "load",
    "file",
    "generation",
    "restarts",
    "failures",
    "next_retry_at",
    "last_load_seconds",
  ] as const satisfies readonly (keyof SlotDetail)[];
  const lines = fields
    // Processes have no image.
    .filter((field) => !field.startsWith("image") || typeof slot[field] === "string")
    .map((field) => {
      const value = field === "state" ? stateLine(slot) : cell(slot[field]);
      return `${`${field.replaceAll("_", " ")}:`.padEnd(20)}${value}`;
    });
  lines.push(...byHand(slot).map(({ title, text }) => `${`${title}:`.padEnd(20)}${text}`));
  lines.push(...choiceLines(slot.on_request));
  const { memory_bytes: memory, last_error: error, recent_failures: recent } = slot;
  if (typeof memory === "number") lines.push(`${"memory:".padEnd(20)}${bytes(memory)}`);
  lines.push(...computeLines(slot.compute), ...deviceLines(slot.memory), ...fitLines(slot.fit));
  lines.push(...benchmarkLines(slot.last_benchmark));
  lines.push(...contextLines(slot.context), ...decisionLines(slot.decisions));
  const processes = slot.processes ?? [];
  for (const process of processes) {
    const { containerId } = process;
    if (typeof containerId !== "string") continue;
    const title = nameOf(process) === "main" ? "container:" : `container (${nameOf(process)}):`;
    lines.push(`${title.padEnd(20)}${cell(containerId).slice(0, 12)}`);
  }
  if (processes.length > 1) lines.push(...processLines(processes));
  lines.push("conditions:");
  for (const { type, status, reason, message } of slot.conditions ?? [])
    lines.push(`  ${cell(type).padEnd(14)}${cell(status).padEnd(9)}${cell(reason).padEnd(22)}${cell(message)}`);
  if (error !== null && error !== undefined)
    lines.push(`last error:         ${cell(error.time)} ${cell(error.reason)}: ${cell(error.message)}`);
  if (recent !== null && recent !== undefined)
    lines.push(`${"failures in 24 h:".padEnd(20)}${cell(recent.count)}, the last at ${cell(recent.time)}`);
  lines.push("transitions:");
  for (const { at, from, to, message } of (slot.transitions ?? []).slice(-10))
    lines.push(`  ${cell(at)}  ${cell(from)} → ${cell(to)}: ${cell(message)}`);
  return `${lines.join("\n")}\n`;
}

/** The lines of a slot with several processes: where each answers, and whether requests are sent to it. */
function processLines(processes: readonly Process[]): string[] {
  const lines = processes.map((process) => {
    const { endpoint, isReady, drainingSince } = process;
    const state = isReady === true ? "ready" : typeof drainingSince === "string" ? "draining" : "not ready";
    return `  ${nameOf(process).padEnd(14)}${state.padEnd(11)}${cell(endpoint)}`;
  });
  return ["processes:", ...lines];
}

function nameOf({ role, ordinal }: Process): string {
  return typeof ordinal === "number" && ordinal > 0 ? `${cell(role)}-${ordinal}` : cell(role);
}

/** The devices that the engine reports. */
function computeLines(compute: SlotRow["compute"]): string[] {
  if (compute === null || compute === undefined) return [];
  const { layers_total: total, layers_offloaded: offloaded } = compute;
  const devices = (compute.devices ?? []).map(cell);
  const layers = typeof total === "number" ? `, ${cell(offloaded)} of ${total} layers on a GPU` : "";
  return [`${"computes on:".padEnd(20)}${devices.length === 0 ? "CPU" : devices.join(", ")}${layers}`];
}

function deviceLines(memory: SlotRow["memory"]): string[] {
  const devices = memory?.devices ?? [];
  return devices.map((device) => `${"GPU memory:".padEnd(20)}${bytes(device.bytes)} of ${cell(device.id)}`);
}

/** The slot's needs of each device by the best figure, then the error of the other figures. */
function fitLines(fit: SlotRow["fit"]): string[] {
  if (fit === null || fit === undefined) return [];
  const errors = (fit.stages ?? []).flatMap(({ stage, error_ratio: error }) =>
    typeof error === "number" ? [`${cell(stage)} ${error < 0 ? "" : "+"}${(error * 100).toFixed(1)} %`] : [],
  );
  const source = [cell(fit.stage), ...errors].join(", ");
  return (fit.devices ?? []).map(({ id, need_bytes: need, budget_bytes: budget }) => {
    const whole = typeof budget === "number" ? ` of ${bytes(budget)}` : "";
    return `${"needs:".padEnd(20)}${bytes(need)}${whole} on ${cell(id)} (${source})`;
  });
}

function contextLines(context: SlotRow["context"]): string[] {
  if (context === null || context === undefined) return [];
  return [`${"kept context:".padEnd(20)}${cell(context.result)} at ${cell(context.at)}: ${cell(context.message)}`];
}

/** The settings that the manifest leaves open, each with its reason. */
function decisionLines(decisions: SlotRow["decisions"]): string[] {
  const lines = Object.entries(decisions ?? {}).map(
    ([name, decision]) => `  ${name.padEnd(18)}${cell(decision?.value).padEnd(10)} ${cell(decision?.reason)}`,
  );
  return lines.length === 0 ? [] : ["decided:", ...lines];
}

/** `berth slot plan`: the operator's next steps. Throws CommandError. */
export async function slotPlan(client: Client, name: string, format: Format): Promise<string> {
  const answer = await client.one("GET /api/slots/{name}/plan", "text", { params: { name } });
  if (format === "json" || format === "yaml") return await renderOne(answer, format);
  if (format === "name") return `${cell(answer.slot)}\n`;
  return String(answer.text).split("\n").map(printable).join("\n");
}

/** Why a slot's log is empty. */
async function whyNoLog(client: Client, name: string): Promise<string> {
  const slot = await client.one("GET /api/slots/{name}", "name", { params: { name } });
  const { enabled, state, transitions, file } = slot;
  const hasStarted =
    typeof slot.last_load_seconds === "number" || transitions?.some(({ to }) => to === "starting") === true;
  if (hasStarted) return `${name} has printed nothing, or its log was removed`;
  const next =
    enabled === false
      ? typeof file === "string"
        ? "it is disabled: set `enabled = true` in its manifest"
        : `no manifest configures it: \`berth slot create ${name}\` does`
      : state === "offline"
        ? `\`berth slot load ${name}\` starts it`
        : `it is ${cell(state)}: see \`berth slot show ${name}\``;
  return `${name} has never been started, so that there is no log; ${next}`;
}

/**
 * Lines as they arrive; ends with the server's stream. `onEmpty` gets the reason of an empty log. Throws CommandError where
 * the log cannot be read any more.
 */
export async function* slotLogs(
  client: Client,
  name: string,
  options: { tail: number; follow: boolean; timestamps: boolean },
  onEmpty: (reason: string) => void = () => undefined,
): AsyncIterable<string> {
  const { tail, timestamps } = options;
  const route = "GET /api/slots/{name}/logs";
  if (!options.follow) {
    const query = { tail, timestamps: timestamps ? "1" : undefined } as const;
    const text = await wholeText(await client.open(route, { params: { name }, query }));
    if (text === "") onEmpty(await whyNoLog(client, name));
    yield text;
    return;
  }
  const lines = events(await client.open(route, { params: { name }, query: { tail, follow: "1" } }));
  for await (const { event, data } of lines) {
    const parsed = client.parsed(data);
    if (!isRecord(parsed)) continue;
    if (event === "error") throw await failure("dispatch.upstream_unavailable", cell(parsed["message"]));
    const time = options.timestamps ? `${cell(parsed["time"])} ` : "";
    const process = parsed["process"] === undefined ? "" : `${cell(parsed["process"])} | `;
    yield `${time}${process}${String(parsed["line"])}\n`;
  }
}
