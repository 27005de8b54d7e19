import { posix } from "node:path";
import { importsOf } from "./imports.ts";

export type Arrows = Readonly<Record<string, readonly string[]>>;

/** The rooms of one layer: its folders, and `top` for the files beside them. */
export interface Rooms {
  /** A room may import every room that the arrows lead to, directly or through other rooms. */
  readonly arrows: Arrows;
  /** Rooms of which a room may name the types, beside those that its arrows lead to. */
  readonly types: Arrows;
}

/** Which room may import which; docs/architecture.md draws the arrows. */
export const rooms: Readonly<Record<string, Rooms>> = {
  operator: {
    arrows: {
      top: ["act", "contexts", "report", "groups", "pulls", "ports"],
      act: ["plan"],
      report: ["observe"],
      groups: ["plan"],
      observe: ["plan"],
      pulls: [],
      plan: [],
      ports: [],
      contexts: [],
    },
    types: {
      act: ["observe", "top"],
      contexts: ["top"],
      report: ["top"],
      groups: ["top"],
      observe: ["top"],
      pulls: ["top"],
    },
  },
  gateway: {
    arrows: {
      top: ["v1", "management", "proxy", "pages"],
      v1: ["media", "routing", "body-checks"],
      management: ["auth", "routing", "providers", "conversations"],
      proxy: ["telemetry", "providers"],
      telemetry: ["routing"],
      media: ["protocols"],
      routing: ["slots"],
      providers: ["relay"],
      protocols: ["relay"],
      relay: ["http"],
      auth: ["http"],
      conversations: [],
      slots: [],
      http: ["slots"],
      pages: ["http"],
      "body-checks": [],
    },
    types: {
      v1: ["providers"],
      management: ["media", "telemetry"],
      proxy: ["v1"],
      telemetry: ["management"],
      media: ["routing"],
      routing: ["providers", "v1"],
      auth: ["proxy"],
      slots: ["routing"],
    },
  },
};

/** Imports between rooms that the table forbids, and entries of the table without an import. Keys: paths below `src/`. */
export function lintRooms(sources: ReadonlyMap<string, string>, layer: string, { arrows, types }: Rooms): string[] {
  const problems = [...lintArrows(arrows)];
  const unused = new Set([...pairs(arrows), ...pairs(types)]);
  for (const [file, source] of sources) {
    if (!file.startsWith(`${layer}/`)) continue;
    const own = roomOf(file);
    if (!(own in arrows)) problems.push(`${file}: ${own} is no room of ${layer}`);
    const below = reached(arrows, own);
    for (const { specifier, line, isTypeOnly } of importsOf(source)) {
      const target = posix.join(posix.dirname(file), specifier);
      if (!specifier.startsWith(".") || !target.startsWith(`${layer}/`)) continue;
      const other = roomOf(target);
      if (other === own) continue;
      unused.delete(`${own} → ${other}`);
      if (below.has(other)) continue;
      const isType = types[own]?.includes(other) === true;
      if (isType && isTypeOnly) continue;
      const verb = isType ? "may name the types only of" : "may not import";
      problems.push(`${file}:${line}: the room ${own} ${verb} ${other}`);
    }
  }
  return [...problems, ...[...unused].map((pair) => `${layer}: no import needs the arrow ${pair}`)];
}

/** Arrows that close a circle, and arrows that others make needless: the picture shall stay readable. */
function lintArrows(arrows: Arrows): string[] {
  const problems: string[] = [];
  for (const [from, targets] of Object.entries(arrows)) {
    if (reached(arrows, from).has(from)) problems.push(`${from}: its arrows lead back to it`);
    for (const to of targets) {
      const others = { ...arrows, [from]: targets.filter((target) => target !== to) };
      if (reached(others, from).has(to)) problems.push(`${from} → ${to}: other arrows lead there already`);
    }
  }
  return problems;
}

/** All names that the arrows lead to from one name. */
export function reached(arrows: Arrows, from: string): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [from];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    for (const target of arrows[name] ?? []) {
      if (found.has(target)) continue;
      found.add(target);
      open.push(target);
    }
  }
  return found;
}

/** `a → b` for each arrow. */
export function pairs(arrows: Arrows): string[] {
  return Object.entries(arrows).flatMap(([from, targets]) => targets.map((to) => `${from} → ${to}`));
}

/** The solid and dotted arrows of a Mermaid flowchart, `a --> b` and `a -.-> b` each in a line of its own. */
export function drawnArrows(chart: string): { readonly solid: string[]; readonly dotted: string[] } {
  const drawn = (line: string): string[] =>
    [...chart.matchAll(new RegExp(`^\\s*([\\w-]+) ${line} (.+)$`, "gm"))].flatMap(([, from = "", targets = ""]) =>
      targets.split(" & ").map((to) => `${from} → ${to}`),
    );
  return { solid: drawn("-->"), dotted: drawn("-\\.->") };
}

function roomOf(file: string): string {
  const [, room = "", rest] = file.split("/", 3);
  return rest === undefined ? "top" : room;
}
