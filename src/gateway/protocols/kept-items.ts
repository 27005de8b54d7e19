import { steadyNow } from "../../lib/steady-clock.ts";

export interface KeptItemsOptions {
  /** `SVC_BUFFER_LIMIT`: kept items count in it. */
  readonly budget: { add(bytes: number): boolean; give(bytes: number): void };
  /** The limit of all items together. */
  readonly limitBytes: number;
  /** An item without use for this long is removed. */
  readonly lifeMs: number;
  /** Replaced in tests. */
  readonly now?: () => number;
}

/** A small part of the limit of bodies and buffers, for as long as a person may leave a conversation. */
export function keptItems(bufferLimitBytes: number): { readonly limitBytes: number; readonly lifeMs: number } {
  return { limitBytes: Math.min(32 * 1024 * 1024, Math.floor(bufferLimitBytes / 16)), lifeMs: 6 * 3600 * 1000 };
}

interface KeptItem {
  readonly json: Buffer;
  usedAt: number;
}

interface Owner {
  /** In order of use, the last used item last. */
  readonly items: Map<string, KeptItem>;
  bytes: number;
}

/** The cost of an item beside its text. */
const overheadBytes = 256;
/** A longer item is not kept: it would displace the answers of many conversations. */
const itemLimitBytes = 1024 * 1024;

/**
 * Items of answers that clients may name instead of sending them again (`item_reference` of OpenAI's Responses). Only
 * the client that got an item finds it. Bounded: the owner with the most bytes loses its oldest items, so that no
 * client displaces the items of others. In memory alone: a restart loses all.
 */
export class KeptItems implements Disposable {
  readonly #options: KeptItemsOptions;
  readonly #owners = new Map<string, Owner>();
  readonly #sweep: NodeJS.Timeout;
  readonly #now: () => number;
  #bytes = 0;

  constructor(options: KeptItemsOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
    this.#sweep = setInterval(() => this.#forgetOld(), options.lifeMs / 10);
    this.#sweep.unref();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps an item that has an `id`; does nothing where it is too long, or the budget has no room. */
  keep(owner: string, item: object): void {
    const id = "id" in item ? item.id : undefined;
    if (typeof id !== "string") return;
    const json = Buffer.from(JSON.stringify(item));
    const bytes = sizeOf(json);
    if (json.length > itemLimitBytes || bytes > this.#options.limitBytes) return;
    this.#forget(owner, id);
    while (this.#bytes + bytes > this.#options.limitBytes) this.#forgetOne();
    if (!this.#options.budget.add(bytes)) {
      this.#options.budget.give(bytes);
      return;
    }
    const owned = this.#owners.get(owner) ?? { items: new Map<string, KeptItem>(), bytes: 0 };
    this.#owners.set(owner, owned);
    owned.items.set(id, { json, usedAt: this.#now() });
    owned.bytes += bytes;
    this.#bytes += bytes;
  }

  /** The stored item as JSON. */
  find(owner: string, id: string): Buffer | undefined {
    const items = this.#owners.get(owner)?.items;
    const item = items?.get(id);
    if (items === undefined || item === undefined) return undefined;
    if (this.#isOld(item)) {
      this.#forget(owner, id);
      return undefined;
    }
    item.usedAt = this.#now();
    items.delete(id);
    items.set(id, item);
    return item.json;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#sweep);
    this.#options.budget.give(this.#bytes);
    this.#owners.clear();
    this.#bytes = 0;
  }

  #isOld({ usedAt }: KeptItem): boolean {
    return this.#now() - usedAt > this.#options.lifeMs;
  }

  #forgetOld(): void {
    for (const [owner, { items }] of this.#owners) {
      for (const [id, item] of items) {
        if (!this.#isOld(item)) break;
        this.#forget(owner, id);
      }
    }
  }

  #forgetOne(): void {
    let largest: [name: string, owner: Owner] | undefined;
    for (const each of this.#owners) if (each[1].bytes > (largest?.[1].bytes ?? 0)) largest = each;
    const [id] = largest?.[1].items.keys() ?? [];
    if (largest === undefined || id === undefined) throw new Error("items are counted without an owner");
    this.#forget(largest[0], id);
  }

  #forget(name: string, id: string): void {
    const owner = this.#owners.get(name);
    const item = owner?.items.get(id);
    if (owner === undefined || item === undefined) return;
    const bytes = sizeOf(item.json);
    owner.items.delete(id);
    owner.bytes -= bytes;
    if (owner.items.size === 0) this.#owners.delete(name);
    this.#bytes -= bytes;
    this.#options.budget.give(bytes);
  }
}

function sizeOf(json: Buffer): number {
  return json.length + overheadBytes;
}

/** The items of one owner. */
export interface OwnItems {
  keep(item: object): void;
  /** The stored item as JSON. */
  find(id: string): Buffer | undefined;
}
