import { literalSecrets } from "../../api/masked.ts";
import { maskedText } from "../../api/masked-text.ts";
import type { SlotSpecInput } from "../../api/slot.ts";

/** A place in a file of the other program. */
export interface Place {
  readonly file: string;
  /** Counts from 1. */
  readonly line?: number | undefined;
}

/** A setting that Berth has not, or has otherwise. */
export interface Omission extends Place {
  /** The setting, as `models.coder.cmdStop`; never a secret's value. */
  readonly what: string;
  readonly why: string;
}

/** The files of a model, absolute. */
export interface Weights {
  /** Shards in order. */
  readonly paths: readonly string[];
  readonly projector?: string | undefined;
  /** The name of its Model where the files have none to take it from. */
  readonly name?: string | undefined;
}

/** Fields of a Slot, of which empty ones are not written; the values of `request.set` are any JSON. */
export type SlotFields = Omit<SlotSpecInput, "request"> & {
  readonly request?: {
    readonly set?: Readonly<Record<string, unknown>> | undefined;
    readonly strip?: readonly string[] | undefined;
  };
};

/** One model of the other program, in fields of Berth's Slot. */
export interface ImportedSlot {
  /** The name by which its clients call it. */
  readonly name: string;
  readonly place: Place;
  readonly aliases: readonly string[];
  /** The files of a llama slot; absent: `spec.model.default`, if any, is a name that only the engine knows. */
  readonly weights?: Weights | undefined;
  /** Without `aliases`, `group` and the name of the weights. */
  readonly spec: SlotFields;
  /** The name of an ImportedGroup. */
  readonly group?: string | undefined;
}

export interface ImportedGroup {
  readonly name: string;
  /** How many slots may be loaded at once; `memory`: as many as the machine's first device holds. */
  readonly budget: number | "memory";
  readonly minResidencySeconds?: number;
}

export interface ImportedUpstream {
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
}

/** The one form of everything that an importer understood, and of what it did not carry. */
export interface Imported {
  readonly slots: readonly ImportedSlot[];
  readonly groups: readonly ImportedGroup[];
  readonly upstreams?: readonly ImportedUpstream[];
  readonly omissions: readonly Omission[];
}

/** The place of a command line in the source. */
export interface LineContext {
  readonly omissions: Omissions;
  readonly place: Place;
  /** The setting that holds the line, as `models.coder.cmd`. */
  readonly name: string;
  /** Relative paths of this machine start here. */
  readonly directory: string;
}

/** Slots that share a group where they are more than it holds; those that are loaded at the start are in none. */
export function sharing(
  slots: readonly ImportedSlot[],
  { name, budget }: ImportedGroup,
): Pick<Imported, "slots" | "groups"> {
  if (slots.length <= (budget === "memory" ? 1 : budget)) return { slots, groups: [] };
  const grouped = slots.map((slot) => (slot.spec.load === "onDemand" ? { ...slot, group: name } : slot));
  return { slots: grouped, groups: [{ name, budget }] };
}

/** Writes down what is not carried. */
export class Omissions {
  readonly #found: Omission[] = [];

  add(place: Place, what: string, why: string): void {
    this.#found.push({ ...place, what, why });
  }

  /** Does the same, unless the same was written down before. */
  addOnce(place: Place, what: string, why: string): void {
    if (!this.#found.some((found) => found.what === what && found.why === why)) this.add(place, what, why);
  }

  /** By file and line, in the order of the source. */
  sorted(): readonly Omission[] {
    return this.#found.toSorted((a, b) =>
      a.file === b.file ? (a.line ?? 0) - (b.line ?? 0) : a.file < b.file ? -1 : 1,
    );
  }
}

/** Why a secret is not written into a manifest, which every reader of the directory sees. */
export const secretStays =
  "it looks like a secret, which no manifest holds: put it into a file of mode 0600 and name that with env.NAME.valueFrom.file";

/** Why the key of llama-server is not written into a manifest. */
export const ownKey =
  "its value is not carried: Berth gives each engine a new key per start, and clients tokens (`berth token create`)";

/** Whether a text names a path such as `C:\models\a.gguf`, which is no file of this machine. */
export function hasWindowsPath(text: string): boolean {
  return /(?:^|[\s"'=])(?:[A-Za-z]:[\\/](?!\/)|\\\\\w)/.test(text);
}

/** Whether a text is a secret by its look, or holds one as a command line or an address does. */
export function holdsSecret(text: string): boolean {
  return maskedText(text) !== text;
}

/** The words without those that look like a secret, or hold one; each is told by its flag. */
export function withoutSecrets(
  words: readonly string[],
  { omissions, place, name }: Omit<LineContext, "directory">,
): readonly string[] {
  const gone = new Set<number>();
  const found = literalSecrets({ env: {}, args: [...words], command: undefined }).map((path) =>
    Number(path.slice("args.".length)),
  );
  const held = words.flatMap((word, at) => (holdsSecret(word) ? [at] : []));
  for (const at of [...found, ...held]) {
    const word = words[at] ?? "";
    if (gone.has(at)) continue;
    const flag = word.replace(/=[^]*$/, "");
    const isFlag = word.startsWith("-") && !holdsSecret(flag);
    gone.add(at);
    if (isFlag && flag === word) gone.add(at + 1);
    omissions.add(
      place,
      `${name} ${isFlag ? flag : `word ${at + 1}`}`,
      "it looks like a secret, and is left out: name it by a variable with env.NAME.valueFrom.file, or $(BEARER)",
    );
  }
  return words.filter((_word, at) => !gone.has(at));
}
