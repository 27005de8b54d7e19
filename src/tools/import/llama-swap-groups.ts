import { isRecord } from "../../lib/record.ts";
import { nameFrom } from "./names.ts";
import type { ImportedGroup, LeftList } from "./imported.ts";
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
  readonly path: readonly string[];
}

type Budget = ImportedGroup["budget"];

/**
 * The groups of a configuration: `groups` or `matrix`, at the top or below `routing.router.settings`. Models in no group
 * are in llama-swap's default group, which has one at a time (llama-swap, config.example.yaml, "routing").
 */
export function groupingOf(source: SourceDocument, models: readonly string[], left: LeftList): Grouping {
  const below = ["routing", "router", "settings"];
  const router = mapAt(source.value, "routing", "router");
  const settings = mapAt(source.value, ...below);
  const isMatrix = router["use"] === "matrix" || (router["use"] === undefined && isRecord(source.value["matrix"]));
  if (isRecord(mapAt(source.value, "routing")["scheduler"]))
    left.add(source.at("routing", "scheduler"), "routing.scheduler", "requests for a slot are served in their order");
  if (isMatrix) {
    const path = isRecord(source.value["matrix"]) ? ["matrix"] : [...below, "matrix"];
    return matrixGrouping(source, models, path, left);
  }
  const path = isRecord(settings["groups"]) ? [...below, "groups"] : ["groups"];
  const groups = swapGroups(path, models, source, left);
  return { ...grouped(groups, source, left), priorityOf: new Map() };
}

function swapGroups(
  path: readonly string[],
  models: readonly string[],
  source: SourceDocument,
  left: LeftList,
): readonly SwapGroup[] {
  const taken = new Set<string>();
  const groups = Object.entries(mapAt(source.value, ...path)).map(([name, value]): SwapGroup => {
    const fields = mapAt(value);
    const members = textsOf(fields["members"]).filter((member) => {
      const isKnown = models.includes(member) && !taken.has(member);
      if (!isKnown)
        left.add(
          source.at(...path, name),
          [...path, name, "members"].join("."),
          `${member} is no model of this file, or in another group`,
        );
      taken.add(member);
      return isKnown;
    });
    return {
      name: nameFrom(name, 64),
      members,
      isSwap: fields["swap"] !== false,
      isExclusive: fields["exclusive"] !== false,
      isPersistent: fields["persistent"] === true,
      path: [...path, name],
    };
  });
  const others = models.filter((model) => !taken.has(model));
  const rest = { name: "llama-swap", members: others, isSwap: true, isExclusive: true, isPersistent: false, path: [] };
  return [...groups, rest].filter(({ members }) => members.length > 0);
}

function grouped(groups: readonly SwapGroup[], source: SourceDocument, left: LeftList): Omit<Grouping, "priorityOf"> {
  const made: ImportedGroup[] = [];
  const groupOf = new Map<string, string>();
  const add = (name: string, members: readonly string[], budget: Budget): void => {
    if (members.length < 2) return;
    made.push(swapping(name, budget));
    for (const member of members) groupOf.set(member, name);
  };
  // Each unloads all others: together they are one group.
  const exclusive = groups.filter(({ isExclusive, isPersistent }) => isExclusive && !isPersistent);
  const [first, second] = exclusive;
  const together = exclusive.filter(({ isSwap, members }) => !isSwap && members.length > 1);
  if (first !== undefined && (second !== undefined || first.isSwap)) {
    const members = exclusive.flatMap((group) => group.members);
    add(first.name, members, together.length === 0 ? 1 : "memory");
    for (const { path } of together)
      left.add(
        source.at(...path),
        path.join("."),
        `group ${first.name} keeps loaded what fits into the memory, and not just these members`,
      );
  }
  for (const { name, members, isSwap, isPersistent, path } of groups.filter((group) => !exclusive.includes(group))) {
    if (isSwap) add(name, members, 1);
    if (!isPersistent && exclusive.length > 0)
      left.add(
        source.at(...path),
        path.join("."),
        "it is not persistent: llama-swap unloads it for exclusive groups, Berth leaves it loaded",
      );
  }
  return { groups: made, groupOf };
}

/** llama-swap waits for nothing before it swaps. */
function swapping(name: string, budget: Budget): ImportedGroup {
  return { name, budget, minResidencySeconds: 0 };
}

function matrixGrouping(
  source: SourceDocument,
  members: readonly string[],
  path: readonly string[],
  left: LeftList,
): Grouping {
  const matrix = mapAt(source.value, ...path);
  const vars = mapAt(matrix, "vars");
  const modelOf = (name: string): string => (typeof vars[name] === "string" ? vars[name] : name);
  const sets = Object.entries(mapAt(matrix, "sets"));
  const isSingle = sets.every(([, text]) => typeof text === "string" && !/[&+]/.test(text));
  if (!isSingle)
    left.add(
      source.at(...path, "sets"),
      `${path.join(".")}.sets`,
      "the slots share one group, which keeps loaded what fits into the memory, in any combination",
    );
  const costs = Object.entries(mapAt(matrix, "evict_costs"));
  return {
    groups: members.length < 2 ? [] : [swapping("llama-swap", isSingle ? 1 : "memory")],
    groupOf: new Map(members.length < 2 ? [] : members.map((member) => [member, "llama-swap"])),
    priorityOf: new Map(
      costs.flatMap(([name, cost]) =>
        typeof cost === "number" && cost > 1 ? [[modelOf(name), Math.min(1000, Math.round(cost))] as const] : [],
      ),
    ),
  };
}
