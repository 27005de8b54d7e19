/**
 * The parts of a page's address after `/ui`, decoded; none is the list of slots. Undefined: the address has a broken escape,
 * so that nothing can be at it.
 */
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

const names: Readonly<Record<string, string>> = {
  slots: "Slots",
  models: "Models",
  groups: "Groups",
  hardware: "Hardware",
  upstreams: "Providers",
  tokens: "Tokens",
  requests: "Requests",
  playground: "Playground",
  settings: "Settings",
};

/** The links to the pages, in their order: the first segment of each, and its name. */
export const pages: readonly (readonly [string, string])[] = Object.entries(names);

/** What the tab of a page is called: of a slot's page its slot first, since tabs cut the end off. */
export function titleOf(parts: readonly string[] | undefined): string {
  const [page = "slots", part] = parts ?? ["none"];
  const name = Object.hasOwn(names, page) ? names[page] : undefined;
  if (name === undefined) return "No such page · Berth";
  return `${part === undefined ? "" : `${part} · `}${name} · Berth`;
}
