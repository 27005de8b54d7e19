import { resourceKey } from "../../api/resource-status.ts";
import { isDeepStrictEqual } from "node:util";
import { slotNameSchema, type Kind } from "../../api/names.ts";
import { describePlace } from "./field-place.ts";
import type { Declaration } from "./manifest.ts";
import { notASlotName } from "../judged-spec.ts";
import type { Origin } from "../origin.ts";
import type { Desired, Diagnostic, SourceProblem } from "../store.ts";

export interface FileEntry {
  readonly stamp: string;
  readonly text: string | undefined;
  readonly declarations: readonly Declaration[];
  /**
   * Declarations that the file had before, and since when they are missing: a half-written file can be a valid file
   * with less.
   */
  readonly dropped: readonly { readonly declaration: Declaration; readonly at: number }[];
  /** When the file was first missed; undefined while it exists, `held` while its absence proves nothing. */
  readonly missedAt: number | "held" | undefined;
}

type FileOrigin = Extract<Origin, { kind: "file" }>;
type AnyDesired = Desired<Kind> & { readonly origin: FileOrigin };

/**
 * The declarations of files, and the resources that follow: the first declaration stays in force, and so does the last
 * valid spec.
 */
export class DeclaredFiles {
  readonly #now: () => Date;
  readonly #files = new Map<string, FileEntry>();
  /** The files that declare a key, in path order when read. */
  readonly #claims = new Map<string, Set<string>>();
  readonly #resources = new Map<string, AnyDesired>();
  /** Files that would declare a slot under an invalid name: such a slot cannot be published. */
  readonly #nameless = new Map<string, SourceProblem>();

  constructor(now: () => Date) {
    this.#now = now;
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    const found = this.#resources.get(resourceKey({ kind, name }));
    return found === undefined || !isOfKind(found, kind) ? undefined : found;
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    return [...this.#resources.values()].filter((desired) => isOfKind(desired, kind));
  }

  /** Files that declare nothing because of the name, and documents of other programs. */
  undeclared(): readonly SourceProblem[] {
    const foreign = [...this.#files].flatMap(([file, { declarations }]) =>
      declarations
        .filter(({ isForeign }) => isForeign === true)
        .map((): SourceProblem => {
          const message = `${file} holds a document that is not Berth's, which is left alone: keep it in another directory`;
          return { reason: "ForeignDocument", message, file };
        }),
    );
    return [...this.#nameless.values(), ...foreign];
  }

  file(path: string): FileEntry | undefined {
    return this.#files.get(path);
  }

  files(): ReadonlyMap<string, FileEntry> {
    return this.#files;
  }

  /** Files that declare a resource, or did until just now. */
  claims(kind: Kind, name: string): readonly FileEntry[] {
    return [...(this.#claims.get(resourceKey({ kind, name })) ?? [])].flatMap((file) => this.#files.get(file) ?? []);
  }

  /** The declaration that was published from a file: the file counts as read, with a stamp that no real file has. */
  plant(declaration: Declaration): void {
    const { kind, name, spec, specHash, labels, annotations, file, diagnostics } = declaration;
    const declarations = [...(this.#files.get(file)?.declarations ?? []), declaration];
    this.#files.set(file, { stamp: "seed", text: undefined, declarations, dropped: [], missedAt: undefined });
    this.#claim(declaration);
    const origin = { kind: "file", path: file } as const;
    const declared = { kind, name, spec, specHash, labels, annotations, origin, generation: undefined };
    this.#resources.set(resourceKey({ kind, name }), { ...declared, since: new Date(0), diagnostics });
  }

  /** Replaces a file's declarations; undefined: none. Adds the keys to settle to `touched`. */
  replace(file: string, entry: FileEntry | undefined, touched: Set<string>): void {
    for (const { kind, name } of declarationsOf(this.#files.get(file))) {
      const key = resourceKey({ kind, name });
      touched.add(key);
      this.#claims.get(key)?.delete(file);
    }
    if (entry === undefined) {
      this.#files.delete(file);
      return;
    }
    this.#files.set(file, entry);
    for (const declaration of declarationsOf(entry)) touched.add(this.#claim(declaration));
  }

  /** Derives the resource of a key again from its files, and returns it if it changed or was removed. */
  settle(key: string): Pick<AnyDesired, "kind" | "name"> | undefined {
    const before = this.#resources.get(key);
    const after = this.#resourceOf(key, before);
    this.#nameless.delete(key);
    if (after?.kind === "Slot" && !slotNameSchema.safeParse(after.name).success) {
      const message = `${after.origin.path} declares no slot: ${notASlotName(after.name)}`;
      this.#nameless.set(key, { reason: "InvalidName", message, file: after.origin.path });
      return undefined;
    }
    if (after === undefined) {
      if (before === undefined) return undefined;
      this.#resources.delete(key);
      this.#claims.delete(key);
    } else {
      if (before !== undefined && isSame(before, after)) return undefined;
      this.#resources.set(key, after);
    }
    return after ?? before;
  }

  #resourceOf(key: string, before: AnyDesired | undefined): AnyDesired | undefined {
    const entries = [...(this.#claims.get(key) ?? [])].toSorted().flatMap((file) => this.#files.get(file) ?? []);
    const isOfKey = ({ kind, name }: Declaration): boolean => resourceKey({ kind, name }) === key;
    const present = entries
      .flatMap((entry) => (entry.missedAt === undefined ? entry.declarations : []))
      .filter(isOfKey);
    // A missing declaration lasts for its two seconds, and blocks no other.
    const declarations = present.length > 0 ? present : entries.flatMap(declarationsOf).filter(isOfKey).slice(0, 1);
    const incumbent = declarations.find(({ file }) => file === before?.origin.path) ?? declarations[0];
    if (incumbent === undefined) return undefined;
    const duplicates = declarations
      .filter((declaration) => declaration !== incumbent)
      .map((declaration): Diagnostic => {
        const { file, kind, name } = declaration;
        const place = describePlace(incumbent.file, incumbent.at);
        const message = `${kind} ${name} is already defined at ${place}, which stays in force; change or delete one of the two`;
        return { reason: "DuplicateResource", file, ...declaration.at, message };
      });
    const lastGood = before?.spec;
    const spec = incumbent.spec ?? lastGood;
    const isLastGood = incumbent.spec === undefined && lastGood !== undefined;
    const specHash = isLastGood ? (before?.specHash ?? incumbent.specHash) : incumbent.specHash;
    return {
      kind: incumbent.kind,
      name: incumbent.name,
      spec,
      specHash,
      labels: incumbent.spec === undefined && before !== undefined ? before.labels : incumbent.labels,
      annotations: incumbent.annotations,
      origin: { kind: "file", path: incumbent.file } as const,
      generation: undefined,
      since: before?.since ?? this.#now(),
      diagnostics: [...incumbent.diagnostics, ...duplicates],
    };
  }

  #claim({ kind, name, file }: Declaration): string {
    const key = resourceKey({ kind, name });
    const files = this.#claims.get(key) ?? new Set();
    this.#claims.set(key, files.add(file));
    return key;
  }
}

function declarationsOf(entry: FileEntry | undefined): readonly Declaration[] {
  if (entry === undefined) return [];
  return [...entry.declarations, ...entry.dropped.map(({ declaration }) => declaration)].filter(
    ({ isForeign }) => isForeign !== true,
  );
}

function isOfKind<K extends Kind>(desired: AnyDesired, kind: K): desired is AnyDesired & Desired<K> {
  return desired.kind === kind;
}

/** Specs are compared, too: another release may have published another spec under the hash of the same manifest. */
function isSame(a: AnyDesired, b: AnyDesired): boolean {
  const { since: _a, spec: aSpec, ...restA } = a;
  const { since: _b, spec: bSpec, ...restB } = b;
  return JSON.stringify(restA) === JSON.stringify(restB) && isDeepStrictEqual(aSpec, bSpec);
}
