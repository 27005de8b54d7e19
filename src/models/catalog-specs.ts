import type { CatalogEntry } from "../api/catalog.ts";
import type { ModelSpec } from "../api/model.ts";
import type { PulledModel } from "../api/pulled-model.ts";
import { keptSuccess } from "../lib/kept-success.ts";
import { filesOf, isWanted } from "./fetch/wanted-model.ts";

/** The spec of the catalogue's model with that ref and these files; undefined: the catalogue has none. */
export type CatalogSpecs = (model: PulledModel) => ModelSpec | undefined;

export function catalogSpecsOf(catalog: readonly CatalogEntry[]): CatalogSpecs {
  const specs = new Map(catalog.map(({ metadata, spec }) => [spec.ref ?? metadata.name, spec]));
  return (model) => {
    const spec = specs.get(model.ref);
    return spec !== undefined && isWanted(model, filesOf(spec)) ? spec : undefined;
  };
}

/**
 * Reads the catalogue at the first call. Without a readable catalogue files have their own facts only, and the next call reads
 * again.
 */
export function catalogSpecsReader(catalog: () => Promise<readonly CatalogEntry[]>): () => Promise<CatalogSpecs> {
  const specs = keptSuccess(async () => catalogSpecsOf(await catalog()));
  return async () => await specs().catch(() => () => undefined);
}
