/** The segments of an address of the page after `/ui`, decoded. Undefined: it has a broken escape, so that nothing can be at it. */
export function segmentsOf(path: string): readonly string[] | undefined {
  try {
    return path
      .replace(/^\/ui(?=\/|$)/, "")
      .split("/")
      .filter((each) => each !== "")
      .map((each) => decodeURIComponent(each));
  } catch {
    return undefined;
  }
}

/** The pages of the rail, in their order: the first segment of each, and its name. */
export const pageNames = {
  slots: "Overview",
  models: "Models",
  requests: "Requests",
  playground: "Playground",
  machine: "Machine",
  providers: "Providers",
  settings: "Settings",
} as const;

export type PageName = keyof typeof pageNames;

export function isPage(name: string): name is PageName {
  return Object.hasOwn(pageNames, name);
}

/** The title of the tab: its slot or its part of a page first, since tabs cut the end off. */
export function titleOf(parts: readonly string[] | undefined): string {
  const [page = "slots", part] = parts ?? ["none"];
  if (!isPage(page)) return "No such page · Berth";
  if (page === "slots" && part !== undefined) return `${part} · Berth`;
  return part === undefined ? `${pageNames[page]} · Berth` : `${part} · ${pageNames[page]} · Berth`;
}
