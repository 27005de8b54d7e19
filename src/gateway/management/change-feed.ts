/** One change. Its text is made once for all readers. */
export interface FeedEvent {
  readonly id: string;
  readonly event: string;
  readonly data: unknown;
  /** The change as a server-sent event. */
  readonly text: string;
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
  publish(event: string, key: string, data: object): void {
    const json = JSON.stringify(data);
    if (this.#last.get(key) === json) return;
    this.#last.set(key, json);
    this.#publishAll(event, data, json);
  }

  /** Sends the removal of `key` to all readers. */
  forget(event: string, key: string, data: object): void {
    if (this.#last.delete(key)) this.#publishAll(event, data, JSON.stringify(data));
  }

  #publishAll(event: string, data: object, json: string): void {
    this.#count += 1;
    const id = this.lastId;
    const entry: FeedEvent = { id, event, data, text: eventText(id, event, json) };
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

/** A server-sent event whose data is one line of JSON. */
export function eventText(id: string, event: string, json: string): string {
  return `id: ${id}\nevent: ${event}\ndata: ${json}\n\n`;
}
