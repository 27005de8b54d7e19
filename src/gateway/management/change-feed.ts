import { canonicalJson } from "../../lib/canonical.ts";

/** One change, as its readers get it. */
export interface FeedEvent {
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
}

/** How many events a reader may have missed and still resume. */
const historyLength = 1000;

/**
 * Numbers changes, and keeps the last ones for readers that come back. The feed's own name is part of every id: an id
 * of another gateway, or of before a restart, is unknown, and its reader gets a snapshot.
 */
export class ChangeFeed {
  readonly #name: string;
  readonly #history: FeedEvent[] = [];
  readonly #readers = new Set<(event: FeedEvent) => void>();
  readonly #last = new Map<string, string>();
  #count = 0;

  constructor(name: string) {
    this.#name = name;
  }

  get readers(): number {
    return this.#readers.size;
  }

  /** The id of the last change. */
  get lastId(): string {
    return `${this.#name}-${this.#count}`;
  }

  /** Tells all readers, unless `data` is what was last told of `key`. */
  tell(event: string, key: string, data: unknown): void {
    const text = canonicalJson(data);
    if (this.#last.get(key) === text) return;
    this.#last.set(key, text);
    this.#tellAll(event, data);
  }

  /** Tells that there is no `key` any more. */
  forget(event: string, key: string, data: unknown): void {
    if (this.#last.delete(key)) this.#tellAll(event, data);
  }

  #tellAll(event: string, data: unknown): void {
    this.#count += 1;
    const told: FeedEvent = { id: this.lastId, event, data };
    this.#history.push(told);
    if (this.#history.length > historyLength) this.#history.shift();
    for (const reader of this.#readers) reader(told);
  }

  /** What was told after `id`; undefined when that is not known any more, or never was. */
  since(id: string): readonly FeedEvent[] | undefined {
    if (id === this.lastId) return [];
    const at = this.#history.findIndex((event) => event.id === id);
    if (at >= 0) return this.#history.slice(at + 1);
    const [first] = this.#history;
    return first !== undefined && id === `${this.#name}-${this.#count - this.#history.length}`
      ? this.#history
      : undefined;
  }

  follow(reader: (event: FeedEvent) => void): Disposable {
    this.#readers.add(reader);
    return { [Symbol.dispose]: () => void this.#readers.delete(reader) };
  }
}
