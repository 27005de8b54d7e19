import { dirname } from "node:path";
import type { DeclaredFiles, FileEntry } from "./declared-files.ts";
import { keyOf } from "./declared-files.ts";
import type { Listing } from "./listing.ts";
import type { Removals } from "./removals.ts";
import type { SourceProblem } from "./store.ts";

/** A removal acts when the file has been gone this long and a second look agrees (DECISIONS 7). */
export const removalMs = 2000;
/** The API removes a file right after it has recorded that; a record of one that is still there is void by then. */
const voidMs = 10_000;

/**
 * Which missing files are deletions. A single one is; so is what the API was asked to remove, were it the last or one of
 * many. A directory that somebody emptied proves nothing of the others until it holds a file again.
 */
export class MissingFiles {
  readonly #declared: DeclaredFiles;
  readonly #removals: Removals | undefined;
  readonly #now: () => Date;
  /** Each directory as it was when it last held a file: an empty one with another identity is another directory. */
  readonly #identities = new Map<string, string>();
  /** Directories whose files vanished in a way that proves nothing, until one holds a file. */
  readonly #emptied = new Set<string>();

  constructor(declared: DeclaredFiles, removals: Removals | undefined, now: () => Date) {
    this.#declared = declared;
    this.#removals = removals;
    this.#now = now;
  }

  /**
   * Decides about files that a listing lacks, but for those `glanced` at since; notes in `touched` the keys to settle.
   * Returns what is held back, and after how many milliseconds to look again.
   */
  judge(
    listing: Listing,
    glanced: ReadonlySet<string>,
    touched: Set<string>,
  ): { readonly problems: readonly SourceProblem[]; readonly laterMs: number } {
    const now = this.#now().getTime();
    const asked = new Set(this.#removals?.list().map(({ kind, name }) => keyOf(kind, name)));
    const problems: SourceProblem[] = [];
    let laterMs = Infinity;
    for (const [directory, { isConclusive }] of listing.directories) {
      const gone = [...this.#declared.files()].filter(
        ([file]) => dirname(file) === directory && !listing.files.has(file) && !glanced.has(file),
      );
      const unasked = gone.filter(([, entry]) => !isAsked(entry, asked)).length;
      const isEmptied = this.#isEmptied(directory, listing, unasked);
      if (isEmptied && isConclusive && unasked > 0) {
        const message = `${directory} holds no manifest any more; what was declared before (${unasked}) stays in force until one is there`;
        problems.push({ reason: "SourceEmpty", message, file: directory });
      }
      for (const [file, entry] of gone) {
        const isHeld = !isConclusive || (isEmptied && !isAsked(entry, asked));
        const missedAt = isHeld ? "held" : typeof entry.missedAt === "number" ? entry.missedAt : now;
        if (missedAt !== "held" && now - missedAt >= removalMs) {
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

  #isEmptied(directory: string, { directories, files }: Listing, unasked: number): boolean {
    const { identity, isConclusive } = directories.get(directory) ?? { identity: undefined, isConclusive: false };
    if ([...files.keys()].some((file) => dirname(file) === directory)) {
      if (identity !== undefined) this.#identities.set(directory, identity);
      this.#emptied.delete(directory);
      return false;
    }
    const isAnother = identity === undefined || this.#identities.get(directory) !== identity;
    if (isConclusive && (unasked > 1 || (unasked > 0 && isAnother))) this.#emptied.add(directory);
    return this.#emptied.has(directory);
  }

  /** Those that are done, and those whose file is there all the same. */
  #forgetRemovals(): void {
    for (const removal of this.#removals?.list() ?? []) {
      const claims = this.#declared.claims(removal.kind, removal.name);
      const isVoid = Math.abs(Date.now() - Date.parse(removal.requestedAt)) > voidMs;
      if (claims.every(({ missedAt }) => missedAt === undefined && isVoid)) this.#removals?.forget(removal);
    }
  }
}

/** Whether all that a file declared was asked to go. */
function isAsked({ declarations }: FileEntry, asked: ReadonlySet<string>): boolean {
  return declarations.length > 0 && declarations.every(({ kind, name }) => asked.has(keyOf(kind, name)));
}
