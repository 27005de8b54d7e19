import type { GroupView } from "../api/management/group-routes.ts";
import { CommandError, type Client } from "./client.ts";
import { fieldLine, named, showDeclared, type DeclaredKind } from "./declared.ts";
import { bytes, cell, render, type Column, type Format } from "./output.ts";
import type { Received } from "./received.ts";

type Row = Received<GroupView>;
type Member = NonNullable<Row["members"]>[number];

const kind: DeclaredKind = { word: "group", command: "group" };

/** `3` of slots, `12.0 GiB` of memory or a device. */
function amount(resource: unknown, value: unknown): string {
  return resource === "slots" ? cell(value) : bytes(value);
}

function used(row: Row): string {
  const shares = (row.budget ?? []).map(({ resource, total, used: part }) => {
    const what = resource === "memory" ? "" : ` ${cell(resource)}`;
    return `${amount(resource, part)} of ${amount(resource, total)}${what}`;
  });
  return shares.length === 0 ? "-" : shares.join(", ");
}

const seconds = (value: number | null): string => (value === null ? "-" : `${cell(value)} s`);

function slotsIn(row: Row, ...states: readonly string[]): string {
  const names = (row.members ?? []).flatMap(({ slot, state }) => (states.includes(cell(state)) ? [cell(slot)] : []));
  return names.length === 0 ? "-" : names.join(", ");
}

/** Why a file of the group is not in force. */
function fault({ conditions }: Row): string | undefined {
  const stalled = conditions?.find(({ type, status }) => type === "Stalled" && status === "True");
  return stalled === undefined ? undefined : cell(stalled.reason);
}

function fileOf(row: Row): unknown {
  if (row.declared === true) return row.file;
  return fault(row) === undefined
    ? `none: its slots share the memory of their devices; groups/${cell(row.name)}.toml can give them a budget (docs/groups.md)`
    : `${cell(row.file)}, not in force`;
}

function stateOf(row: Row): string {
  const { declared, lent_until: until, problems } = row;
  if (typeof until === "string") return `lent until ${until}`;
  const [problem] = problems ?? [];
  if (problem !== undefined) return cell(problem.reason);
  if (declared === true) return "ok";
  return fault(row) ?? "not declared";
}

const columns: readonly Column<Row>[] = [
  { title: "NAME", value: (row) => cell(row.name) },
  { title: "STATE", value: stateOf, colour: (text) => (text === "ok" ? "green" : "yellow") },
  { title: "USED", value: used },
  { title: "LOADED", value: (row) => slotsIn(row, "loaded", "loading", "leaving") },
  { title: "WAITING", value: (row) => slotsIn(row, "waiting") },
];

/** `berth group list`. Throws CommandError. */
export async function groupTable(client: Client, format: Format): Promise<string> {
  return await render(await client.list("GET /api/groups"), columns, format, "name");
}

/** `berth group show`. Throws CommandError. */
export async function groupShow(client: Client, name: string, format: Format): Promise<string> {
  return await showDeclared(named(name, await client.list("GET /api/groups"), kind), format, groupLines);
}

async function groupLines(group: Row): Promise<readonly string[]> {
  const { maxWaitSeconds: wait, minResidencySeconds: residency } = group.spec ?? {};
  const fields: readonly (readonly [title: string, value: unknown])[] = [
    ["name", group.name],
    ["state", stateOf(group)],
    ["file", fileOf(group)],
    ["used", used(group)],
    ["max wait", wait === undefined ? undefined : seconds(wait)],
    ["residency", residency === undefined ? undefined : seconds(residency)],
    ...(group.problems ?? []).map(({ message }) => ["problem", message] as const),
  ];
  const { conditionLines } = await import("./conditions.ts");
  const members = (group.members ?? []).map(memberLine);
  return [
    ...fields.flatMap(([title, value]) => (value === undefined ? [] : [fieldLine(title, value)])),
    ...conditionLines(group),
    ...(members.length === 0 ? ["slots:          none names it in group"] : ["slots:", ...members]),
  ];
}

/** The cost of coming back for a loaded slot. */
function costOf(cost: Member["cost"]): readonly string[] {
  if (cost === null || cost === undefined) return [];
  const { load_seconds: load, context_tokens: tokens, context_seconds: read } = cost;
  return [
    ...(typeof load === "number" ? [`loads in ${load.toFixed(1)} s`] : []),
    ...(typeof tokens === "number" && typeof read === "number"
      ? [`has ${tokens} tokens in its cache (${read.toFixed(1)} s)`]
      : []),
  ];
}

function memberLine({ slot, state, since, needs, cost, message }: Member): string {
  const takes = (needs ?? [])
    .filter(({ resource, amount: size }) => resource !== "slots" && size !== 0)
    .map(({ resource, amount: size }) => `${bytes(size)} of ${cell(resource)}`);
  const parts = [`  ${cell(slot).padEnd(16)}${cell(state)} since ${cell(since)}`, ...takes, ...costOf(cost)];
  return typeof message === "string" ? `${parts.join(", ")}: ${cell(message)}` : parts.join(", ");
}

/** `berth lend`: for that many seconds; without a time, ends it. Throws CommandError. */
export async function lendGroups(client: Client, name: string | undefined, time: number | undefined): Promise<string> {
  const all = await client.list("GET /api/groups");
  if (name !== undefined) named(name, all, kind);
  const names = name === undefined ? all.map((each) => cell(each.name)) : [name];
  if (names.length === 0) {
    throw new CommandError(
      "system.not_found",
      "there is no group: slots leave with the others of their group",
      'write group = "gpu" into the slots that use the GPU; docs/groups.md says more',
    );
  }
  const lines: string[] = [];
  for (const each of names) {
    const params = { name: each };
    if (time === undefined) {
      await client.call("DELETE /api/groups/{name}/lend", { params });
      lines.push(`${each}: no longer lent\n`);
      continue;
    }
    const group = await client.one("POST /api/groups/{name}/lend", "lent_until", { params, body: { seconds: time } });
    const loaded = slotsIn(group, "loaded", "loading", "leaving");
    const leave = loaded === "-" ? "" : `; unloaded once their requests have ended: ${loaded}`;
    lines.push(`${each}: lent until ${cell(group.lent_until)}${leave}\n`);
  }
  return lines.join("");
}
