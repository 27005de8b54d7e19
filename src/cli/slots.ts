import { benchmarkCell, benchmarkLines } from "./benchmark.ts";
import { choiceLines } from "./chosen-model.ts";
import { failure, type Client } from "./client.ts";
import { events } from "./events.ts";
import {
  age,
  bytes,
  cell,
  isRecord,
  printable,
  recordsIn,
  render,
  renderOne,
  type Column,
  type Format,
} from "./output.ts";
import { byHand, foldedSlots, readyCell, stateLine } from "./slot-words.ts";

type Row = Readonly<Record<string, unknown>>;

function lastError(row: Row): string {
  const error = row["last_error"];
  if (!isRecord(error)) return "-";
  const line = cell(error["message"]);
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

function stateColour(state: string): "green" | "yellow" | "red" | undefined {
  if (["ready", "serving", "idle"].includes(state)) return "green";
  if (state === "error") return "red";
  return state === "offline" ? undefined : "yellow";
}

export const slotColumns: readonly Column[] = [
  { title: "NAME", value: (row) => cell(row["name"]) },
  { title: "STATE", value: (row) => cell(row["state"]), colour: stateColour },
  { title: "READY", value: readyCell },
  { title: "MODEL", value: (row) => cell(row["model"]) },
  { title: "ENGINE", isWide: true, value: (row) => cell(row["engine"]) },
  { title: "RUNTIME", isWide: true, value: (row) => cell(row["runtime"]) },
  { title: "PORT", value: (row) => cell(row["port"]) },
  { title: "RESTARTS", value: (row) => cell(row["restarts"]) },
  { title: "IN-FLIGHT", isWide: true, value: (row) => cell(row["in_flight"]) },
  { title: "UP", value: (row) => age(row["uptime_seconds"]) },
  { title: "BENCH TOK/S", isWide: true, value: (row) => benchmarkCell(row["last_benchmark"]) },
  { title: "LAST ERROR", isWide: true, value: lastError },
];

/** `berth slot list`. Throws CommandError. */
export async function slotTable(client: Client, format: Format): Promise<string> {
  return await slotText(await client.list("/api/slots"), format);
}

/** Slots in the wanted form; for a person, the built-in slots that nobody has configured are one line below the table. */
export async function slotText(slots: readonly Row[], format: Format): Promise<string> {
  if (format !== "table" && format !== "wide") return await render(slots, slotColumns, format, "name");
  const { rows, others } = foldedSlots(slots);
  return `${await render(rows, slotColumns, format, "name")}${others}`;
}

/** One slot for a person: its fields, its conditions, and its last transitions. */
export async function slotShow(client: Client, name: string, format: Format): Promise<string> {
  const slot = await client.one(`/api/slots/${encodeURIComponent(name)}`, "name");
  if (format === "json" || format === "yaml") return await renderOne(slot, format);
  if (format === "name") return `${cell(slot["name"])}\n`;
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
  ];
  const lines = fields
    // Processes have no image.
    .filter((field) => !field.startsWith("image") || typeof slot[field] === "string")
    .map((field) => {
      const value = field === "state" ? stateLine(slot) : cell(slot[field]);
      return `${`${field.replaceAll("_", " ")}:`.padEnd(20)}${value}`;
    });
  lines.push(...byHand(slot).map(({ title, text }) => `${`${title}:`.padEnd(20)}${text}`));
  lines.push(...choiceLines(slot["on_request"]));
  const memory = slot["memory_bytes"];
  if (typeof memory === "number") lines.push(`${"memory:".padEnd(20)}${bytes(memory)}`);
  lines.push(...computeLines(slot["compute"]), ...deviceLines(slot["memory"]), ...fitLines(slot["fit"]));
  lines.push(...benchmarkLines(slot["last_benchmark"]));
  lines.push(...contextLines(slot["context"]), ...decisionLines(slot["decisions"]));
  const processes = recordsIn(slot["processes"]);
  for (const process of processes) {
    const { containerId } = process;
    if (typeof containerId !== "string") continue;
    const title = nameOf(process) === "main" ? "container:" : `container (${nameOf(process)}):`;
    lines.push(`${title.padEnd(20)}${cell(containerId).slice(0, 12)}`);
  }
  if (processes.length > 1) lines.push(...processLines(processes));
  lines.push("conditions:");
  for (const { type, status, reason, message } of recordsIn(slot["conditions"]))
    lines.push(`  ${cell(type).padEnd(14)}${cell(status).padEnd(9)}${cell(reason).padEnd(22)}${cell(message)}`);
  const error = slot["last_error"];
  if (isRecord(error))
    lines.push(`last error:         ${cell(error["time"])} ${cell(error["reason"])}: ${cell(error["message"])}`);
  const recent = slot["recent_failures"];
  if (isRecord(recent))
    lines.push(`${"failures in 24 h:".padEnd(20)}${cell(recent["count"])}, the last at ${cell(recent["time"])}`);
  lines.push("transitions:");
  for (const { at, from, to, message } of recordsIn(slot["transitions"]).slice(-10))
    lines.push(`  ${cell(at)}  ${cell(from)} → ${cell(to)}: ${cell(message)}`);
  return `${lines.join("\n")}\n`;
}

/** The lines of a slot with several processes: where each answers, and whether requests are sent to it. */
function processLines(processes: readonly Record<string, unknown>[]): string[] {
  const lines = processes.map((process) => {
    const { endpoint, isReady, drainingSince } = process;
    const state = isReady === true ? "ready" : drainingSince === undefined ? "not ready" : "draining";
    return `  ${nameOf(process).padEnd(14)}${state.padEnd(11)}${cell(endpoint)}`;
  });
  return ["processes:", ...lines];
}

function nameOf({ role, ordinal }: Record<string, unknown>): string {
  return typeof ordinal === "number" && ordinal > 0 ? `${cell(role)}-${ordinal}` : cell(role);
}

/** The devices that the engine reports. */
function computeLines(compute: unknown): string[] {
  if (!isRecord(compute)) return [];
  const devices = Array.isArray(compute["devices"]) ? compute["devices"].map(cell) : [];
  const total = compute["layers_total"];
  const layers = typeof total === "number" ? `, ${cell(compute["layers_offloaded"])} of ${total} layers on a GPU` : "";
  return [`${"computes on:".padEnd(20)}${devices.length === 0 ? "CPU" : devices.join(", ")}${layers}`];
}

function deviceLines(memory: unknown): string[] {
  const devices = recordsIn(isRecord(memory) ? memory["devices"] : undefined);
  return devices.map((device) => `${"GPU memory:".padEnd(20)}${bytes(device["bytes"])} of ${cell(device["id"])}`);
}

/** The slot's needs of each device by the best figure, then the error of the other figures. */
function fitLines(fit: unknown): string[] {
  if (!isRecord(fit)) return [];
  const devices = recordsIn(fit["devices"]);
  const stages = recordsIn(fit["stages"]);
  const errors = stages.flatMap(({ stage, error_ratio: error }) =>
    typeof error === "number" ? [`${cell(stage)} ${error < 0 ? "" : "+"}${(error * 100).toFixed(1)} %`] : [],
  );
  const source = [cell(fit["stage"]), ...errors].join(", ");
  return devices.map(({ id, need_bytes: need, budget_bytes: budget }) => {
    const whole = typeof budget === "number" ? ` of ${bytes(budget)}` : "";
    return `${"needs:".padEnd(20)}${bytes(need)}${whole} on ${cell(id)} (${source})`;
  });
}

function contextLines(context: unknown): string[] {
  if (!isRecord(context)) return [];
  return [
    `${"kept context:".padEnd(20)}${cell(context["result"])} at ${cell(context["at"])}: ${cell(context["message"])}`,
  ];
}

/** The settings that the manifest leaves open, each with its reason. */
function decisionLines(decisions: unknown): string[] {
  const known = isRecord(decisions) ? Object.entries(decisions) : [];
  const lines = known.flatMap(([name, decision]) =>
    isRecord(decision) ? [`  ${name.padEnd(18)}${cell(decision["value"]).padEnd(10)} ${cell(decision["reason"])}`] : [],
  );
  return lines.length === 0 ? [] : ["decided:", ...lines];
}

/** `berth slot plan`: the operator's next steps. Throws CommandError. */
export async function slotPlan(client: Client, name: string, format: Format): Promise<string> {
  const answer = await client.one(`/api/slots/${encodeURIComponent(name)}/plan`, "text");
  if (format === "json" || format === "yaml") return await renderOne(answer, format);
  if (format === "name") return `${cell(answer["slot"])}\n`;
  return String(answer["text"]).split("\n").map(printable).join("\n");
}

/** Why a slot's log is empty. */
async function whyNoLog(client: Client, name: string): Promise<string> {
  const slot = await client.one(`/api/slots/${encodeURIComponent(name)}`, "name");
  const { enabled, state, transitions, file } = slot;
  const hasStarted =
    typeof slot["last_load_seconds"] === "number" || recordsIn(transitions).some(({ to }) => to === "starting");
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
  const path = `/api/slots/${encodeURIComponent(name)}/logs?tail=${options.tail}`;
  if (!options.follow) {
    const text = await client.text(options.timestamps ? `${path}&timestamps=1` : path);
    if (text === "") onEmpty(await whyNoLog(client, name));
    yield text;
    return;
  }
  for await (const { event, data } of events(await client.open(`${path}&follow=1`))) {
    const parsed = client.parsed(data);
    if (!isRecord(parsed)) continue;
    if (event === "error") throw await failure("dispatch.upstream_unavailable", cell(parsed["message"]));
    const time = options.timestamps ? `${cell(parsed["time"])} ` : "";
    const process = parsed["process"] === undefined ? "" : `${cell(parsed["process"])} | `;
    yield `${time}${process}${String(parsed["line"])}\n`;
  }
}
