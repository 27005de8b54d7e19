import { isRecord } from "../../lib/record.ts";
import type { Fields } from "./llama-swap-fields.ts";
import { nameFrom } from "./names.ts";
import type { ImportedGroup, Omissions } from "./imported.ts";
import { mapAt, textsOf, type SourceDocument } from "./source-text.ts";

/** Which models share which group, and how dear each is to lose. */
export interface Grouping {
  readonly groups: readonly ImportedGroup[];
  /** The group's name by model. */
  readonly groupOf: ReadonlyMap<string, string>;
  /** By model: the last to be unloaded has the highest. */
  readonly priorityOf: ReadonlyMap<string, number>;
}

interface SwapGroup {
  readonly name: string;
  readonly members: readonly string[];
  readonly isSwap: boolean;
  readonly isExclusive: boolean;
  readonly isPersistent: boolean;
  readonly note: (why: string) => void;
}

/** Models that share a group. */
interface SharedGroup {
  readonly name: string;
  readonly members: readonly string[];
  readonly budget: ImportedGroup["budget"];
}

/** Tells of a field below `groups` or `matrix` why it is not carried. */
type Note = (why: string, ...fields: readonly string[]) => void;

/**
 * The groups of a configuration: `groups` or `matrix`, at the top or below `routing.router.settings`. Models in no group
 * are in llama-swap's default group, which has one at a time (llama-swap, config.example.yaml, "routing").
 */
export function groupingOf(source: SourceDocument, models: readonly string[], omissions: Omissions): Grouping {
  const { value } = source;
  const below = ["routing", "router", "settings"];
  const { use } = mapAt(value, "routing", "router");
  if (isRecord(mapAt(value, "routing")["scheduler"]))
    omissions.add(
      source.at("routing", "scheduler"),
      "routing.scheduler",
      "requests for a slot are served in their order",
    );
  const isMatrix = use === "matrix" || (use === undefined && isRecord(value["matrix"]));
  const key = isMatrix ? "matrix" : "groups";
  const path = isRecord(mapAt(value, ...below)[key]) && !(isMatrix && isRecord(value[key])) ? [...below, key] : [key];
  const note: Note = (why, ...fields) =>
    omissions.add(source.at(...path, ...fields), [...path, ...fields].join("."), why);
  const fields = mapAt(value, ...path);
  return isMatrix ? matrixGrouping(fields, models, note) : grouped(swapGroups(fields, models, note));
}

function swapGroups(map: Fields, models: readonly string[], note: Note): readonly SwapGroup[] {
  const taken = new Set<string>();
  const groups = Object.entries(map).map(([name, value]): SwapGroup => {
    const fields = mapAt(value);
    const members = textsOf(fields["members"]).filter((member) => {
      const isKnown = models.includes(member) && !taken.has(member);
      if (!isKnown) note(`${member} is no model of this file, or in another group`, name, "members");
      taken.add(member);
      return isKnown;
    });
    return {
      name: nameFrom(name, 64),
      members,
      isSwap: fields["swap"] !== false,
      isExclusive: fields["exclusive"] !== false,
      isPersistent: fields["persistent"] === true,
      note: (why) => note(why, name),
    };
  });
  const others = models.filter((model) => !taken.has(model));
  const rest = { name: "llama-swap", members: others, isSwap: true, isExclusive: true, isPersistent: false, note };
  return [...groups, rest].filter(({ members }) => members.length > 0);
}

function grouped(groups: readonly SwapGroup[]): Grouping {
  const found: SharedGroup[] = [];
  // Each unloads all others: together they are one group.
  const exclusive = groups.filter(({ isExclusive, isPersistent }) => isExclusive && !isPersistent);
  const [first, second] = exclusive;
  if (first !== undefined && (second !== undefined || first.isSwap)) {
    const together = exclusive.filter(({ isSwap, members }) => !isSwap && members.length > 1);
    const members = exclusive.flatMap((group) => group.members);
    found.push({ name: first.name, members, budget: together.length === 0 ? 1 : "memory" });
    for (const { note } of together)
      note(`group ${first.name} keeps loaded what fits into the memory, and not just these members`);
  }
  for (const { name, members, isSwap, isPersistent, note } of groups.filter((group) => !exclusive.includes(group))) {
    if (isSwap) found.push({ name, members, budget: 1 });
    if (!isPersistent && exclusive.length > 0)
      note("it is not persistent: llama-swap unloads it for exclusive groups, Berth leaves it loaded");
  }
  return { ...sharedBy(found), priorityOf: new Map() };
}

/** llama-swap waits for nothing before it swaps. */
function sharedBy(groups: readonly SharedGroup[]): Omit<Grouping, "priorityOf"> {
  const several = groups.filter(({ members }) => members.length > 1);
  return {
    groups: several.map(({ name, budget }) => ({ name, budget, minResidencySeconds: 0 })),
    groupOf: new Map(several.flatMap(({ name, members }) => members.map((member) => [member, name] as const))),
  };
}

function matrixGrouping({ vars, sets, evict_costs: costs }: Fields, members: readonly string[], note: Note): Grouping {
  const modelOf = (name: string): string => textsOf(mapAt(vars)[name] ?? [])[0] ?? name;
  const isSingle = Object.values(mapAt(sets)).every((text) => typeof text === "string" && !/[&+]/.test(text));
  if (!isSingle)
    note("the slots share one group, which keeps loaded what fits into the memory, in any combination", "sets");
  const priorities = Object.entries(mapAt(costs)).flatMap(([name, cost]) =>
    typeof cost === "number" && cost > 1 ? [[modelOf(name), Math.min(1000, Math.round(cost))] as const] : [],
  );
  const shared = sharedBy([{ name: "llama-swap", members, budget: isSingle ? 1 : "memory" }]);
  return { ...shared, priorityOf: new Map(priorities) };
}
