import { basename, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { directoryOfKind, isBuiltin, modelRefSchema, type Kind } from "../../api/names.ts";
import { enginesOfBuiltin, slotSpecSchema } from "../../api/slot.ts";
import { sha256 } from "../../lib/canonical.ts";
import type * as ModelFiles from "../../models/model-files.ts";
import { isWithin } from "../../lib/within.ts";
import { definedFields, isRecord } from "../../lib/record.ts";
import { Omissions, type Imported, type ImportedSlot, type Omission, type Weights } from "./imported.ts";
import { canBeAlias, nameFrom, refFrom, uniqueName } from "./names.ts";

/** A manifest to be written. */
export interface NewManifest {
  readonly kind: Kind;
  readonly name: string;
  /** Below the configuration directory. */
  readonly file: string;
  readonly text: string;
}

/** A name or alias of a slot, with the file that declares it. */
export interface DeclaredName {
  readonly name: string;
  readonly file: string;
}

export interface ManifestContext {
  /** The file or directory that is imported. */
  readonly origin: string;
  readonly modelsDir: string;
  /** The device whose memory a group shares: `gpu0`, or `host` where there is no GPU. */
  readonly device: string;
  /** The names and aliases of all slots of the directory. */
  readonly declared: readonly DeclaredName[];
  /** The text of a spec as a YAML file. */
  readonly yaml: (spec: Readonly<Record<string, unknown>>) => string;
}

/** The manifests of an import, one file each, in the order slots, models, groups, upstreams; and what their names made impossible. */
export async function manifestsOf(
  { slots, groups, upstreams = [], omissions }: Imported,
  context: ManifestContext,
): Promise<{ readonly manifests: readonly NewManifest[]; readonly omissions: readonly Omission[] }> {
  const taken = new Set<string>();
  const named = slots.map((slot) => ({ slot, name: slotName(slot, taken) }));
  const files = new Set(named.map(({ name }) => fileOf("Slot", name)));
  const own = named.map(({ name }) => [name, `a slot in ${fileOf("Slot", name)}`] as const);
  // The import replaces its own files.
  const others = context.declared.filter(({ file }) => !files.has(file));
  const names = new Map([...others.map(({ name, file }) => [name, `a slot in ${file}`] as const), ...own]);
  const more = new Omissions();
  const models = new Models(context.modelsDir, contestedNames(slots), await import("../../models/model-files.ts"));
  const refs = slots.flatMap(({ weights }) => (weights === undefined ? [] : (models.refOf(weights).ref ?? [])));
  const made = named.map(({ slot, name }) => {
    const ref = slot.weights === undefined ? undefined : models.refOf(slot.weights).ref;
    const aliases = [...new Set([...(slot.name === name ? [] : [slot.name]), ...slot.aliases])].filter((alias) => {
      // Clients call a slot by the name of its model as well, and a model's name is no alias.
      if (alias === ref && refs.filter((each) => each === ref).length === 1) return false;
      const owner = names.get(alias) ?? (refs.includes(alias) ? `the model ${alias}` : undefined);
      if (owner === undefined && canBeAlias(alias)) {
        names.set(alias, `a slot in ${fileOf("Slot", name)}`);
        return true;
      }
      if (alias !== name) more.add(slot.place, `the name ${alias}`, whyNoAlias(owner, name));
      return false;
    });
    return manifest("Slot", name, slotSpec(slot, aliases, models), context);
  });
  const declared = models.declared.map(({ name, spec }) => manifest("Model", name, spec, context));
  const shared = groups.map(({ name, budget, minResidencySeconds }) => {
    const spec = { budget: budget === "memory" ? { device: context.device } : { slots: budget }, minResidencySeconds };
    return manifest("SlotGroup", name, definedFields(spec), context);
  });
  const distantNames = new Set<string>();
  const distant = upstreams.map(({ name, spec }) =>
    manifest("Upstream", uniqueName(nameFrom(name), distantNames), spec, context),
  );
  return { manifests: [...made, ...declared, ...shared, ...distant], omissions: [...omissions, ...more.sorted()] };
}

/** Names of slots that share their weights with another one: a model of that name would answer for either. */
function contestedNames(slots: readonly ImportedSlot[]): ReadonlySet<string> {
  const byFiles = Map.groupBy(
    slots.filter(({ weights }) => weights !== undefined),
    ({ weights }) => weights && keyOf(weights),
  );
  const shared = [...byFiles.values()].filter(({ length }) => length > 1).flat();
  return new Set(shared.flatMap(({ name, aliases }) => [name, ...aliases]));
}

const keyOf = ({ paths, projector }: Weights): string => [...paths, projector ?? ""].join("\0");

function whyNoAlias(owner: string | undefined, name: string): string {
  return owner === undefined
    ? `no slot can have it; clients call the slot ${name}`
    : `it is a name of ${owner}; clients call this one ${name}`;
}

/** A built-in slot keeps its kind of work: another model of that name gets a name of its own. */
function slotName({ name, spec, weights }: ImportedSlot, taken: Set<string>): string {
  const wanted = nameFrom(name);
  if (!isBuiltin(wanted)) return uniqueName(wanted, taken);
  const engines: readonly string[] = enginesOfBuiltin[wanted];
  const work = {
    primary: [undefined, "chat"],
    embed: ["embeddings", "rerank"],
    stt: ["transcription"],
    tts: ["speech"],
    img: ["image"],
  } as const;
  const fits: readonly (string | undefined)[] = work[wanted];
  const engine = spec.engine ?? (weights === undefined ? "custom" : "llama");
  if (engines.includes(engine) && fits.includes(spec.capabilities?.[0])) return uniqueName(wanted, taken);
  return uniqueName(`${wanted}-model`, taken);
}

function fileOf(kind: Kind, name: string): string {
  return `${directoryOfKind[kind]}/${name}.yaml`;
}

function manifest(
  kind: Kind,
  name: string,
  spec: Readonly<Record<string, unknown>>,
  { origin, yaml }: ManifestContext,
): NewManifest {
  return { kind, name, file: fileOf(kind, name), text: signed(origin, yaml(spec)) };
}

/** The first line tells where a manifest is from, and whether a person has changed it since. */
function signed(origin: string, text: string): string {
  return `# Imported from ${origin.replaceAll(/\s+/g, " ")} by berth config import. Checksum: ${checksum(text)}\n${text}`;
}

/** Whether an import wrote the text, and nobody has changed it since. */
export function isUnchangedImport(text: string): boolean {
  const [, sum, rest] =
    /^# Imported from .* by berth config import\. Checksum: ([0-9a-f]{12})\n([^]*)$/.exec(text) ?? [];
  return rest !== undefined && sum === checksum(rest);
}

function checksum(text: string): string {
  return sha256(text).slice(0, 12);
}

/** In the order in which a person would write them. */
const order =
  "engine image command capabilities group priority load idleSeconds aliases model args env mounts devices backend resources shmSizeBytes probe stopSeconds concurrency timeoutSeconds request".split(
    " ",
  );
/** The schema's own values: a short manifest leaves them out. */
const defaults = slotSpecSchema.parse({});

function slotSpec(slot: ImportedSlot, aliases: readonly string[], models: Models): Readonly<Record<string, unknown>> {
  const { weights, group } = slot;
  const { ref, projector } = weights === undefined ? {} : models.refOf(weights);
  const model = { default: ref, ...slot.spec.model, ...definedFields({ projector }) };
  const rank = ([key]: readonly [string, unknown]): number => order.indexOf(key);
  const fields = Object.entries({ ...slot.spec, group, aliases, model }).toSorted((a, b) => rank(a) - rank(b));
  return withoutDefaults(Object.fromEntries(fields), defaults);
}

/** The fields without those that are undefined, empty, or as the schema has them. */
function withoutDefaults(
  fields: Readonly<Record<string, unknown>>,
  standard: Readonly<Record<string, unknown>>,
): typeof fields {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([key, value]) => {
      const usual = standard[key];
      if (!isRecord(value) || !isRecord(usual))
        return value === undefined || isDeepStrictEqual(value, usual) ? [] : [[key, value] as const];
      const inner = withoutDefaults(value, usual);
      return Object.keys(inner).length === 0 ? [] : [[key, inner] as const];
    }),
  );
}

/** The models that slots name: files of the models directory by their own names, all others by a Model. */
class Models {
  readonly #modelsDir: string;
  readonly #contested: ReadonlySet<string>;
  readonly #files: typeof ModelFiles;
  readonly #byFiles = new Map<string, { readonly ref: string; readonly projector: string | undefined }>();
  readonly #taken = new Set<string>();
  readonly declared: { readonly name: string; readonly spec: Readonly<Record<string, unknown>> }[] = [];

  /** No Model gets a name of `contested`. */
  constructor(modelsDir: string, contested: ReadonlySet<string>, files: typeof ModelFiles) {
    this.#modelsDir = modelsDir;
    this.#contested = contested;
    this.#files = files;
  }

  /** The ref of the weights, and the projector where no Model names it. */
  refOf(weights: Weights): { readonly ref?: string; readonly projector?: string | undefined } {
    const { paths, projector, name } = weights;
    const [first = ""] = paths;
    const key = keyOf(weights);
    const known = this.#byFiles.get(key);
    if (known !== undefined) return known;
    const stem = basename(first).replace(/\.gguf$/i, "");
    const { base = stem, count } = this.#files.shard.exec(stem)?.groups ?? {};
    const isOwn = this.#isListed(first) && modelRefSchema.safeParse(base).success && !this.#taken.has(base);
    if (isOwn) this.#taken.add(base);
    const wanted = refFrom(name ?? base);
    const ref = isOwn ? base : uniqueName(this.#contested.has(wanted) ? nameFrom(wanted) : wanted, this.#taken, 100);
    if (!isOwn) {
      const parts = paths.length === 1 && count !== undefined ? shards(first, base, count) : paths;
      const sources = [...parts, ...(projector === undefined ? [] : [projector])].map(
        (path) => pathToFileURL(path).href,
      );
      this.declared.push({
        name: ref,
        spec: sources.length === 1 ? { source: sources[0] } : { files: sources.map((source) => ({ source })) },
      });
    }
    const found = { ref, projector: isOwn ? projector : undefined };
    this.#byFiles.set(key, found);
    return found;
  }

  #isListed(path: string): boolean {
    const { isGgufName, depth } = this.#files;
    return (
      isGgufName(path) &&
      isWithin(path, this.#modelsDir) &&
      relative(this.#modelsDir, path).split("/").length <= depth + 1
    );
  }
}

/** The path of each shard of a model, by the path of one. */
function shards(path: string, base: string, count: string): readonly string[] {
  const directory = path.slice(0, path.length - basename(path).length);
  return Array.from(
    { length: Number(count) },
    (_, index) => `${directory}${base}-${String(index + 1).padStart(5, "0")}-of-${count}.gguf`,
  );
}
