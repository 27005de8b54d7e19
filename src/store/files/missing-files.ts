import { resourceKey } from "../../api/resource-status.ts";
import { dirname } from "node:path";
import type { DeclaredFiles, FileEntry } from "./declared-files.ts";
import type { Listing } from "./listing.ts";
import type { Removals } from "../state/removals.ts";
import type { SourceProblem } from "../store.ts";

/**
 * A removal takes effect when the file has been gone this long and a second read agrees (DECISIONS 7), a requested one at once:
 * no editor is about to write the file again.
 */
export const removalMs = 2000;
/**
 * The API removes a file right after it has recorded the removal; after this time the record of an existing file is
 * void.
 */
const voidMs = 10_000;

/**
 * Decides which missing files are deletions. A single one is; so is a removal over the API, also of the last or of
 * many. An emptied directory proves nothing about the others until it holds a file again.
 */
export class MissingFiles {
  readonly #declared: DeclaredFiles;
  readonly #removals: Removals | undefined;
  readonly #now: () => Date;
  /**
   * The identity of each directory when it last held a file: an empty one with another identity is another directory.
   */
  readonly #identities = new Map<string, string>();
  /** Directories whose files vanished without proof of a deletion, until one holds a file. */
  readonly #emptied = new Set<string>();

  constructor(declared: DeclaredFiles, removals: Removals | undefined, now: () => Date) {
    this.#declared = declared;
    this.#removals = removals;
    this.#now = now;
  }

  /**
   * Decides about files that a listing lacks, except those in `readSince`; adds the keys to settle to
   * `touched`. Returns the held files, and the milliseconds until the next read.
   */
  judge(
    listing: Listing,
    readSince: ReadonlySet<string>,
    touched: Set<string>,
  ): { readonly problems: readonly SourceProblem[]; readonly laterMs: number } {
    const now = this.#now().getTime();
    const requested = new Set(this.#removals?.list().map(({ kind, name }) => resourceKey({ kind, name })));
    const problems: SourceProblem[] = [];
    let laterMs = Infinity;
    for (const [directory, { isConclusive }] of listing.directories) {
      const gone = [...this.#declared.files()].filter(
        ([file]) => dirname(file) === directory && !listing.files.has(file) && !readSince.has(file),
      );
      const unrequested = gone.filter(([, entry]) => !isRequested(entry, requested)).length;
      const isEmptied = this.#isEmptied(directory, listing, unrequested);
      if (isEmptied && isConclusive && unrequested > 0) {
        const message = `${directory} holds no manifest any more; the earlier declarations (${unrequested}) stay in force until there is one`;
        problems.push({ reason: "SourceEmpty", message, file: directory });
      }
      for (const [file, entry] of gone) {
        const isWanted = isRequested(entry, requested);
        const isHeld = !isConclusive || (isEmptied && !isWanted);
        const missedAt = isHeld ? "held" : typeof entry.missedAt === "number" ? entry.missedAt : now;
        if (missedAt !== "held" && (isWanted || now - missedAt >= removalMs)) {
          this.#declared.replace(file, undefined, touched);
          continue;
        }
        if (missedAt !== entry.missedAt) this.#declared.replace(file, { ...entry, missedAt }, touched);
        if (missedAt !== "held") laterMs = Math.min(laterMs, removalMs - (now - missedAt) + 5);
      }
    }
    this.#forgetRemovals();
    return { problems, laterMs };
  }

  #isEmptied(directory: string, { directories, files }: Listing, unrequested: number): boolean {
    const { identity, isConclusive } = directories.get(directory) ?? { identity: undefined, isConclusive: false };
    if ([...files.keys()].some((file) => dirname(file) === directory)) {
      if (identity !== undefined) this.#identities.set(directory, identity);
      this.#emptied.delete(directory);
      return false;
    }
    const isAnother = identity === undefined || this.#identities.get(directory) !== identity;
    if (isConclusive && (unrequested > 1 || (unrequested > 0 && isAnother))) this.#emptied.add(directory);
    return this.#emptied.has(directory);
  }

  /** Removals that are done, and those whose file exists after all. */
  #forgetRemovals(): void {
    for (const removal of this.#removals?.list() ?? []) {
      const claims = this.#declared.claims(removal.kind, removal.name);
      const isVoid = Math.abs(Date.now() - Date.parse(removal.requestedAt)) > voidMs;
      if (claims.every(({ missedAt }) => missedAt === undefined && isVoid)) this.#removals?.forget(removal);
    }
  }
}

/** Whether the removal of all declarations of a file was requested. */
function isRequested({ declarations }: FileEntry, requested: ReadonlySet<string>): boolean {
  return declarations.length > 0 && declarations.every(({ kind, name }) => requested.has(resourceKey({ kind, name })));
}
