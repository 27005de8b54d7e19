import type { CatalogEntry } from "../api/catalog.ts";
import type { WantedFile } from "../api/model.ts";
import { keptSuccess } from "../lib/kept-success.ts";
import { parseSource } from "./fetch/source.ts";
import { filesOf } from "./fetch/wanted-model.ts";

/** A licence that a person must accept before the model is fetched. */
export interface RestrictedLicense {
  readonly title: string;
  readonly license: string;
  readonly licenseUrl: string;
}

/** The licence of these files that must be accepted; undefined: the catalogue knows of none. */
export type Licenses = (files: readonly Pick<WantedFile, "source">[]) => RestrictedLicense | undefined;

export function licensesOf(catalog: readonly CatalogEntry[]): Licenses {
  const restricted = new Map<string, RestrictedLicense>();
  for (const { spec, catalog: entry } of catalog) {
    if (!entry.mustAccept) continue;
    const { license = "", licenseUrl = "" } = spec;
    for (const { source } of filesOf(spec)) restricted.set(fileOf(source), { title: entry.title, license, licenseUrl });
  }
  return (files) => {
    for (const { source } of files) {
      const found = restricted.get(fileOf(source));
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/**
 * Reads the catalogue at the first call, since most operators fetch nothing, and keeps what it has read. After a read that
 * failed, which rejects, the next call reads again.
 */
export function licensesReader(catalog: () => Promise<readonly CatalogEntry[]>): () => Promise<Licenses> {
  return keptSuccess(async () => licensesOf(await catalog()));
}

/** The message that a licence must be accepted, with its address. */
export function licenseText({ title, license, licenseUrl }: RestrictedLicense): string {
  return `the licence of ${title} must be accepted first: ${license}, ${licenseUrl}`;
}

/** A file of the hub is the same model in every revision. */
function fileOf(source: string): string {
  if (!source.startsWith("hf://")) return source;
  try {
    const parsed = parseSource(source);
    return parsed.scheme === "hf" ? `hf://${parsed.owner}/${parsed.repo}/${parsed.path}`.toLowerCase() : source;
  } catch {
    return source;
  }
}
