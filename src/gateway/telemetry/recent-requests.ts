import { maskedText } from "../../api/masked.ts";
import type { EndedRequest } from "./access-log.ts";

/** One request that has ended. */
export interface RecentRequest {
  /** Milliseconds of the wall clock. */
  readonly endedAt: number;
  readonly ended: EndedRequest;
  /** Undefined: bodies are not kept, or it had none that is text. */
  readonly body: string | undefined;
}

/** The most requests, and the most characters of their bodies, that are kept. */
const requestLimit = 500;
const bodiesLimit = 4 * 1024 * 1024;
const bodyLimit = 16 * 1024;
/** A secret that begins before the end of what is shown ends before the end of what is masked. */
const maskedBytes = 64 * 1024;

/** The last requests. Bodies only where a person has asked for them, and without what looks like a secret. */
export class RecentRequests {
  readonly keepsBodies: boolean;
  /** A ring: the next request replaces the oldest. Each that is kept longer costs V8 a copy in its young collections. */
  readonly #all: (RecentRequest | undefined)[] = Array.from({ length: requestLimit }, () => undefined);
  /** Of the requests since the start: the oldest that is kept, and the next. */
  #first = 0;
  #next = 0;
  #characters = 0;

  constructor({ keepsBodies }: { readonly keepsBodies: boolean }) {
    this.keepsBodies = keepsBodies;
  }

  /** The part of a request's body that is kept, as a text of its own: the body itself need not stay in memory for it. */
  bodyOf(body: Buffer | undefined): string | undefined {
    if (!this.keepsBodies || body === undefined) return undefined;
    return maskedText(body.toString("utf8", 0, maskedBytes)).slice(0, bodyLimit);
  }

  add(ended: EndedRequest): void {
    const { body } = ended.record;
    if (this.#next - this.#first === requestLimit) this.#drop();
    this.#characters += body?.length ?? 0;
    this.#all[this.#next % requestLimit] = { endedAt: Date.now(), ended, body };
    this.#next += 1;
    while (this.#characters > bodiesLimit) this.#drop();
  }

  /** The newest first. */
  list(limit: number): readonly RecentRequest[] {
    const newest: RecentRequest[] = [];
    for (let nth = this.#next - 1; nth >= this.#first && newest.length < limit; nth -= 1) {
      const request = this.#all[nth % requestLimit];
      if (request !== undefined) newest.push(request);
    }
    return newest;
  }

  #drop(): void {
    const at = this.#first % requestLimit;
    this.#characters -= this.#all[at]?.body?.length ?? 0;
    this.#all[at] = undefined;
    this.#first += 1;
  }
}
