import type { Conversation } from "./model.ts";
import type { Verdict } from "./verdict.ts";

export interface KeeperOptions {
  /** `basedOn`: the `updated_at` of the kept text that this one continues, or `none`. Throws what `verdictOf` judges. */
  readonly put: (conversation: Conversation, basedOn: string) => Promise<void>;
  readonly read: (id: string) => Promise<Conversation>;
  readonly remove: (id: string) => Promise<void>;
  readonly verdictOf: (error: unknown) => Verdict;
  /** Runs a task after a time; the function that it returns cancels that. */
  readonly later: (task: () => void, ms: number) => () => void;
  readonly newId: () => string;
  /** `unkept` has changed. */
  readonly onChange: () => void;
  /** The text of the page has become a conversation of its own: another device has continued the other one. */
  readonly onCopy: (id: string, copy: Conversation) => void;
}

/** A conversation that the server has not kept yet. */
export interface Unkept {
  readonly conversation: Conversation;
  /** Absent: the server has not answered yet. */
  readonly error?: unknown;
  /** Only a person's change makes the server take it. */
  readonly isFinal?: boolean;
  /** The conversation was deleted on another device: it is kept again only where the person of this page wants that. */
  readonly isDeleted?: boolean;
}

interface Entry extends Unkept {
  readonly attempts: number;
  readonly cancel?: () => void;
}

const firstDelayMs = 1000;
const longestDelayMs = 60_000;

/**
 * Has the server keep the conversations of the page. Of one conversation one request runs at a time; a refused one is sent
 * again after a growing time; a text never replaces another device's.
 */
export class Keeper {
  readonly #options: KeeperOptions;
  readonly #unkept = new Map<string, Entry>();
  /** The `updated_at` of the kept text that the page's text continues. */
  readonly #keptAt = new Map<string, string>();
  /** Of texts whose PUT has failed: the server may have kept them all the same. */
  readonly #sent = new Map<string, Set<string>>();
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #removed = new Set<string>();

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  get unkept(): readonly Unkept[] {
    return [...this.#unkept.values()];
  }

  /** Whether the page's text of it is kept, or is to be kept. */
  has(id: string): boolean {
    return this.#keptAt.has(id) || this.#unkept.has(id);
  }

  /** Resolves once the server has answered. A removed conversation does not come back. Each text has another `updated_at`. */
  async keep(conversation: Conversation): Promise<void> {
    const { id } = conversation;
    if (this.#removed.has(id)) return;
    this.#unkept.get(id)?.cancel?.();
    this.#unkept.set(id, { conversation, attempts: 0 });
    this.#options.onChange();
    await this.#attempt(id);
  }

  /** Sends all that is not kept again, now. Resolves once the server has answered. */
  async tryAgain(): Promise<void> {
    await Promise.all([...this.#unkept.keys()].map((id) => this.#attempt(id)));
  }

  /** Keeps a conversation again that was deleted elsewhere. Resolves once the server has answered. */
  async keepAgain(id: string): Promise<void> {
    this.#keptAt.delete(id);
    this.#sent.delete(id);
    await this.#attempt(id);
  }

  /** The latest text; undefined where it is wanted no longer. Throws what `read` throws. */
  async open(id: string, isWanted: () => boolean): Promise<Conversation | undefined> {
    const unkept = (): Conversation | undefined => this.#unkept.get(id)?.conversation;
    const found = unkept() ?? (await this.#inTurn(id, async () => unkept() ?? (await this.#options.read(id))));
    if (!isWanted()) return undefined;
    const later = unkept();
    if (later !== undefined) return later;
    this.#keptAt.set(id, found.updated_at);
    return found;
  }

  /** After the PUTs of this conversation. Throws what `remove` throws; the conversation stays then. */
  async remove(id: string): Promise<void> {
    await this.#inTurn(id, async () => {
      await this.#options.remove(id);
      this.#removed.add(id);
      this.#unkept.get(id)?.cancel?.();
      this.#unkept.delete(id);
      this.#keptAt.delete(id);
    });
    this.#options.onChange();
    // There may be room for others now.
    void this.tryAgain();
  }

  async #attempt(id: string): Promise<void> {
    await this.#inTurn(id, () => this.#put(id));
  }

  async #put(id: string): Promise<void> {
    const entry = this.#unkept.get(id);
    if (entry === undefined) return;
    entry.cancel?.();
    try {
      await this.#options.put(entry.conversation, this.#keptAt.get(id) ?? "none");
    } catch (error) {
      await this.#refused(id, entry, error);
      return;
    }
    this.#keptAt.set(id, entry.conversation.updated_at);
    this.#sent.delete(id);
    // A later text of the same conversation stays to be kept.
    if (this.#unkept.get(id) === entry) this.#unkept.delete(id);
    this.#options.onChange();
  }

  async #refused(id: string, entry: Entry, error: unknown): Promise<void> {
    const verdict = this.#options.verdictOf(error);
    const sent = this.#sent.get(id) ?? new Set();
    if (verdict.kind === "changed") {
      if (!sent.delete(verdict.keptAt)) return await this.#copy(id, entry);
      // What the server has kept is an earlier text of this page: the answer to its PUT was lost.
      this.#keptAt.set(id, verdict.keptAt);
      return await this.#put(id);
    }
    this.#sent.set(id, sent.add(entry.conversation.updated_at));
    // A later text has a turn of its own.
    if (this.#unkept.get(id) !== entry) return;
    const delayMs = Math.min(longestDelayMs, firstDelayMs * 2 ** entry.attempts);
    const isDeleted = verdict.kind === "deleted";
    const isFinal = isDeleted || verdict.kind === "final";
    const said = verdict.kind === "later" ? (verdict.seconds ?? 0) * 1000 : 0;
    const cancel = isFinal ? undefined : this.#options.later(() => void this.#attempt(id), Math.max(delayMs, said));
    const next = { ...entry, attempts: entry.attempts + 1, error, isFinal, isDeleted };
    this.#unkept.set(id, cancel === undefined ? next : { ...next, cancel });
    this.#options.onChange();
  }

  /** Keeps the page's text beside the other one. */
  async #copy(id: string, refused: Entry): Promise<void> {
    const { conversation } = this.#unkept.get(id) ?? refused;
    const copy = { ...conversation, id: this.#options.newId(), title: `${conversation.title} (copy)`.slice(-200) };
    this.#unkept.delete(id);
    this.#keptAt.delete(id);
    this.#sent.delete(id);
    this.#unkept.set(copy.id, { conversation: copy, attempts: 0 });
    this.#options.onCopy(id, copy);
    this.#options.onChange();
    await this.#attempt(copy.id);
  }

  async #inTurn<T>(id: string, task: () => Promise<T>): Promise<T> {
    const next = (this.#turns.get(id) ?? Promise.resolve()).then(task);
    this.#turns.set(
      id,
      next.catch(() => undefined),
    );
    return await next;
  }
}
