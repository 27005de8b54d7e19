import type { UpstreamRow } from "../api/management/views.ts";
import type { Client } from "./client.ts";
import { fieldLine, named, showDeclared, type DeclaredKind } from "./declared.ts";
import { cell, render, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";

type Row = Received<UpstreamRow>;
type Spec = NonNullable<Row["spec"]>;

const circuits = new Map<string | null | undefined, string>([
  ["closed", "serving"],
  ["open", "paused: it keeps failing"],
  ["halfOpen", "tried again"],
]);

function stateOf({ circuit, spec }: Row): string {
  if (spec === null) return "not declared validly";
  return circuits.get(circuit) ?? cell(circuit);
}

const columns: readonly Column<Row>[] = [
  { title: "NAME", value: (row) => cell(row.name) },
  { title: "STATE", value: stateOf, colour: (text) => (text === "serving" ? "green" : "yellow") },
  { title: "MODELS", value: (row) => cell(row.models) },
  { title: "IN-FLIGHT", value: (row) => cell(row.in_flight) },
  { title: "QUEUED", value: (row) => cell(row.queued) },
  { title: "URL", isWide: true, value: (row) => cell(row.spec?.baseUrl) },
  { title: "PROBLEM", value: (row) => cell(row.problem) },
];

const kind: DeclaredKind = { word: "provider", command: "upstream" };

/** `berth upstream list`. Throws CommandError. */
export async function upstreamTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("GET /api/upstreams"), columns, format, "name");
}

/** `berth upstream show`. Throws CommandError. */
export async function upstreamShow(client: Client, name: string, format: Format): Promise<string> {
  return await showDeclared(named(name, await client.list("GET /api/upstreams"), kind), format, upstreamLines);
}

async function upstreamLines(upstream: Row): Promise<readonly string[]> {
  const { baseUrl, auth, models, discover, capabilities, maxConcurrent, retries, timeoutSeconds } = upstream.spec ?? {};
  const lines: readonly (readonly [title: string, value: unknown])[] = [
    ["name", upstream.name],
    ["state", stateOf(upstream)],
    ["problem", upstream.problem],
    ["file", upstream.file],
    ["url", baseUrl],
    ["key", keySource(auth)],
    ["capabilities", capabilities?.map(cell).join(", ")],
    ["models", upstream.models],
    ["declared", models?.map(modelOf).join(", ")],
    ["discovers", discover === undefined || discover === null ? "no" : `every ${cell(discover.intervalSeconds)} s`],
    ["in flight", upstream.in_flight],
    ["queued", upstream.queued],
    ["at once", maxConcurrent ?? "any number"],
    ["retries", retries],
    ["silence", `${cell(timeoutSeconds)} s at most`],
  ];
  const { conditionLines } = await import("./conditions.ts");
  return [...lines.map(([title, value]) => fieldLine(title, value)), ...conditionLines(upstream)];
}

function modelOf({ ref, upstreamModel }: NonNullable<Spec["models"]>[number]): string {
  return upstreamModel === undefined || upstreamModel === null || upstreamModel === ref
    ? cell(ref)
    : `${cell(ref)} (${cell(upstreamModel)})`;
}

/** The source of the key; the service never sends a key itself. */
function keySource(auth: Spec["auth"]): string {
  if (auth === undefined || auth === null || !("valueFrom" in auth)) return "none";
  const source = auth.valueFrom ?? {};
  const as = "header" in auth ? `, sent as ${cell(auth.header)}` : "";
  if ("env" in source) return `variable ${cell(source.env)} of the gateway${as}`;
  if ("file" in source) return `file ${cell(source.file)}${as}`;
  return `${cell(source)}${as}`;
}

/** `berth upstream check`: a line for each. Throws CommandError. */
export async function upstreamChecks(
  client: Client,
  name: string | undefined,
): Promise<{ readonly text: string; readonly isOk: boolean }> {
  const all = await client.list("GET /api/upstreams");
  const names = all.map((each) => cell(each.name));
  if (name !== undefined) named(name, all, kind);
  const wanted = name === undefined ? names : [name];
  if (wanted.length === 0) return { text: "no provider is declared\n", isOk: true };
  const checks = await Promise.all(wanted.map((each) => check(client, each)));
  return { text: checks.map(({ line }) => `${line}\n`).join(""), isOk: checks.every(({ isOk }) => isOk) };
}

async function check(client: Client, name: string): Promise<{ readonly line: string; readonly isOk: boolean }> {
  const answer = await client.one("POST /api/upstreams/{name}/check", "ok", { params: { name } });
  const { models, milliseconds, problem } = answer;
  const isOk = answer.ok === true;
  const line = isOk
    ? `${name}: ok, ${cell(models)} models listed in ${cell(milliseconds)} ms`
    : `${name}: ${cell(problem)}`;
  return { line, isOk };
}
