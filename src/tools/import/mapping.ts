import type { Omissions, Place, SlotFields } from "./imported.ts";
import type { SourceDocument } from "./source-text.ts";

/** A setting of the other program. */
export interface Setting {
  readonly key: string;
  readonly value: unknown;
  /** Its full name, as `models.coder.ttl`. */
  readonly what: string;
  readonly place: Place;
}

/** The fields of a map of a document that lies at that path. */
export function settingsOf(
  fields: Readonly<Record<string, unknown>>,
  source: SourceDocument,
  ...path: readonly string[]
): readonly Setting[] {
  return Object.entries(fields).map(([key, value]) => {
    const at = [...path, key];
    return { key, value, what: at.join("."), place: source.at(...at) };
  });
}

/** The fields of a slot for a value, or why it is not carried; `note` says what of the value is not carried. */
type Rule = (value: unknown, note: (why: string) => void) => SlotFields | string;

/** A rule for each setting of a program, by its key; a text is the reason why it is not carried. */
export type Mapping = Readonly<Record<string, Rule | string>>;

/** The fields that settings become. Those that are not carried are written down; `otherwise` is why for an unknown one. */
export function carried(
  settings: readonly Setting[],
  mapping: Mapping,
  { omissions, otherwise }: { readonly omissions: Omissions; readonly otherwise: string },
): SlotFields {
  const parts = settings.map(({ key, value, what, place }): SlotFields => {
    const note = (why: string): void => omissions.add(place, what, why);
    const rule = Object.hasOwn(mapping, key) ? (mapping[key] ?? otherwise) : otherwise;
    const found = typeof rule === "string" ? rule : rule(value, note);
    if (typeof found !== "string") return found;
    note(found);
    return {};
  });
  return joined(...parts);
}

/** Joins fields: lists of arguments one behind the other; of all others the last counts. */
export function joined(...parts: readonly SlotFields[]): SlotFields {
  return parts.reduce<SlotFields>(
    (all, part) => ({
      ...all,
      ...part,
      model: { ...all.model, ...part.model },
      args: [...(all.args ?? []), ...(part.args ?? [])],
      env: { ...all.env, ...part.env },
      probe: { ...all.probe, ...part.probe },
      request: {
        strip: [...(all.request?.strip ?? []), ...(part.request?.strip ?? [])],
        set: { ...all.request?.set, ...part.request?.set },
      },
    }),
    {},
  );
}

/** Rules for settings that become no fields here: the importer reads them itself, or Berth needs none. Blanks separate keys. */
export function readElsewhere(keys: string): Mapping {
  return Object.fromEntries(keys.split(" ").map((key) => [key, () => ({})]));
}

/** A field of requests that the client does not send. */
export function inRequest(field: string): Rule {
  return (value) => ({ request: { set: { [field]: value } } });
}

/** An argument with the value behind it. */
export function inArguments(flag: string): Rule {
  return (value) => ({ args: [flag, String(value)] });
}

/** A field of the slot's model that is a number above 0. */
export function inModel(field: "contextSize" | "threads"): Rule {
  return (value) => (isCount(value) ? { model: { [field]: value } } : "it is no whole number above 0");
}

/** Whether a value is a whole number above 0. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0;
}

/** People write 99 or 999 for all layers, and Ollama less than 0. */
const allLayers = 99;

/** A number of layers is a wish to spill the rest to the host, which Berth forbids unless it is told. */
export function layers(count: number): NonNullable<SlotFields["model"]> {
  if (!(count >= 0 && count < allLayers)) return {};
  return count === 0 ? { gpuLayers: 0 } : { gpuLayers: count, spill: "allow" };
}

/**
 * How llama-server reads a model's file. By a variable, which its versions ignore where they do not know it: an unknown
 * argument would end them, and the flags of this setting have changed.
 */
export function loadMode(mode: "none" | "mlock"): SlotFields {
  return { env: { LLAMA_ARG_LOAD_MODE: mode } };
}
