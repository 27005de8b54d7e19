import { notBerth, type Client } from "./client.ts";
import { fieldLine, named, showDeclared, type DeclaredKind, type Row } from "./declared.ts";
import { cell, isRecord, recordsIn, render, type Column, type Format } from "./output.ts";

const circuits = new Map<unknown, string>([
  ["closed", "serving"],
  ["open", "paused: it keeps failing"],
  ["halfOpen", "tried again"],
]);

function stateOf({ circuit, spec }: Row): string {
  if (spec === null) return "not declared validly";
  return circuits.get(circuit) ?? cell(circuit);
}

function specOf({ spec }: Row): Row {
  return isRecord(spec) ? spec : {};
}

const columns: readonly Column[] = [
  { title: "NAME", value: (row) => cell(row["name"]) },
  { title: "STATE", value: stateOf, colour: (text) => (text === "serving" ? "green" : "yellow") },
  { title: "MODELS", value: (row) => cell(row["models"]) },
  { title: "IN-FLIGHT", value: (row) => cell(row["in_flight"]) },
  { title: "QUEUED", value: (row) => cell(row["queued"]) },
  { title: "URL", isWide: true, value: (row) => cell(specOf(row)["baseUrl"]) },
  { title: "PROBLEM", value: (row) => cell(row["problem"]) },
];

const kind: DeclaredKind = { path: "/api/upstreams", word: "provider", command: "upstream" };

/** `berth upstream list`. Throws CommandError. */
export async function upstreamTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list(kind.path), columns, format, "name");
}

/** `berth upstream show`. Throws CommandError. */
export async function upstreamShow(client: Client, name: string, format: Format): Promise<string> {
  return await showDeclared(client, kind, name, format, upstreamLines);
}

async function upstreamLines(upstream: Row): Promise<readonly string[]> {
  const { baseUrl, auth, models, discover, capabilities, maxConcurrent, retries, timeoutSeconds } = specOf(upstream);
  const lines: readonly (readonly [title: string, value: unknown])[] = [
    ["name", upstream["name"]],
    ["state", stateOf(upstream)],
    ["problem", upstream["problem"]],
    ["file", upstream["file"]],
    ["url", baseUrl],
    ["key", keySource(auth)],
    ["capabilities", Array.isArray(capabilities) ? capabilities.map(cell).join(", ") : capabilities],
    ["models", upstream["models"]],
    ["declared", recordsIn(models).map(modelOf).join(", ")],
    ["discovers", isRecord(discover) ? `every ${cell(discover["intervalSeconds"])} s` : "no"],
    ["in flight", upstream["in_flight"]],
    ["queued", upstream["queued"]],
    ["at once", maxConcurrent ?? "any number"],
    ["retries", retries],
    ["silence", `${cell(timeoutSeconds)} s at most`],
  ];
  const { conditionLines } = await import("./conditions.ts");
  return [...lines.map(([title, value]) => fieldLine(title, value)), ...conditionLines(upstream)];
}

function modelOf({ ref, upstreamModel }: Row): string {
  return upstreamModel === undefined || upstreamModel === ref ? cell(ref) : `${cell(ref)} (${cell(upstreamModel)})`;
}

/** The source of the key; the service never sends a key itself. */
function keySource(auth: unknown): string {
  if (!isRecord(auth) || auth["type"] === "none") return "none";
  const source = isRecord(auth["valueFrom"]) ? auth["valueFrom"] : {};
  const as = auth["type"] === "header" ? `, sent as ${cell(auth["header"])}` : "";
  if (typeof source["env"] === "string") return `variable ${cell(source["env"])} of the gateway${as}`;
  if (typeof source["file"] === "string") return `file ${cell(source["file"])}${as}`;
  return `${cell(source)}${as}`;
}

/** `berth upstream check`: a line for each. Throws CommandError. */
export async function upstreamChecks(
  client: Client,
  name: string | undefined,
): Promise<{ readonly text: string; readonly isOk: boolean }> {
  const all = await client.list(kind.path);
  const names = all.map((each) => cell(each["name"]));
  if (name !== undefined) named(name, all, kind);
  const wanted = name === undefined ? names : [name];
  if (wanted.length === 0) return { text: "no provider is declared\n", isOk: true };
  const checks = await Promise.all(wanted.map((each) => check(client, each)));
  return { text: checks.map(({ line }) => `${line}\n`).join(""), isOk: checks.every(({ isOk }) => isOk) };
}

async function check(client: Client, name: string): Promise<{ readonly line: string; readonly isOk: boolean }> {
  const answer = await client.send("POST", `${kind.path}/${encodeURIComponent(name)}/check`);
  if (!isRecord(answer) || typeof answer["ok"] !== "boolean") {
    throw notBerth(`${client.server} answered with something else than a check`);
  }
  const { ok, models, milliseconds, problem } = answer;
  const line = ok
    ? `${name}: ok, ${cell(models)} models listed in ${cell(milliseconds)} ms`
    : `${name}: ${cell(problem)}`;
  return { line, isOk: ok };
}
