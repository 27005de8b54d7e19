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
 * Numbers changes, and keeps the last ones for readers that reconnect. The feed's own name is part of every id: an id
 * of another gateway, or from before a restart, is unknown, and its reader gets a snapshot.
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

  /** Sends a change to all readers, unless `data` equals the last data of `key`. */
  publish(event: string, key: string, data: unknown): void {
    const text = canonicalJson(data);
    if (this.#last.get(key) === text) return;
    this.#last.set(key, text);
    this.#publishAll(event, data);
  }

  /** Sends the removal of `key` to all readers. */
  forget(event: string, key: string, data: unknown): void {
    if (this.#last.delete(key)) this.#publishAll(event, data);
  }

  #publishAll(event: string, data: unknown): void {
    this.#count += 1;
    const entry: FeedEvent = { id: this.lastId, event, data };
    this.#history.push(entry);
    if (this.#history.length > historyLength) this.#history.shift();
    for (const reader of this.#readers) reader(entry);
  }

  /** The changes after `id`; undefined for an unknown id. */
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
