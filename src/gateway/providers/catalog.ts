import { modelRefSchema } from "../../api/names.ts";
import type { UpstreamSpec } from "../../api/upstream.ts";

/** The provider of a ref, and its own name for the model. */
export interface UpstreamModel {
  readonly upstream: string;
  readonly providerModel: string;
  readonly spec: UpstreamSpec;
}

export interface CatalogInput {
  readonly name: string;
  readonly spec: UpstreamSpec;
  /** The provider's own names, as last listed. */
  readonly discovered: readonly string[];
}

/** More models than this are no valid list. */
const modelLimit = 10_000;

/**
 * Every ref and its provider. A declared ref beats a discovered one; among equals the holder in `before` keeps it
 * (DECISIONS 6), else the first gets it.
 */
export function mergeCatalog(
  upstreams: readonly CatalogInput[],
  before: ReadonlyMap<string, UpstreamModel>,
): ReadonlyMap<string, UpstreamModel> {
  const declared = new Map<string, UpstreamModel>();
  const discovered = new Map<string, UpstreamModel>();
  for (const { name, spec, discovered: models } of upstreams) {
    const give = (to: Map<string, UpstreamModel>, ref: string, providerModel: string): void => {
      const holder = to.get(ref);
      if (holder?.upstream === name) return;
      if (holder === undefined || before.get(ref)?.upstream === name) {
        to.set(ref, { upstream: name, providerModel, spec });
      }
    };
    for (const { ref, upstreamModel } of spec.models) give(declared, ref, upstreamModel ?? ref);
    const { discover } = spec;
    if (discover === undefined) continue;
    for (const model of models) {
      const ref = discover.prefix + model;
      if (modelRefSchema.safeParse(ref).success) give(discovered, ref, model);
    }
  }
  return new Map([...declared, ...[...discovered].filter(([ref]) => !declared.has(ref))]);
}

/**
 * The names in a provider's list of models: OpenAI's `data` of objects with `id`, or other forms of it. Throws Error
 * for anything else.
 */
export function modelNames(list: unknown): readonly string[] {
  const found = itemsOf(list);
  if (found === undefined) throw new Error("the provider's answer is no list of models");
  const names = found.flatMap((item) => nameOf(item) ?? []);
  return [...new Set(names)].slice(0, modelLimit);
}

function itemsOf(list: unknown): readonly unknown[] | undefined {
  if (Array.isArray(list)) return list;
  if (typeof list !== "object" || list === null) return undefined;
  if ("data" in list && Array.isArray(list.data)) return list.data;
  return "models" in list && Array.isArray(list.models) ? list.models : undefined;
}

function nameOf(item: unknown): string | undefined {
  if (typeof item === "string") return item;
  if (typeof item !== "object" || item === null) return undefined;
  if ("id" in item && typeof item.id === "string") return item.id;
  return "name" in item && typeof item.name === "string" ? item.name : undefined;
}
