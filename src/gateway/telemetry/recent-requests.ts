import { maskedText } from "../../api/masked.ts";
import type { EndedRequest } from "./access-log.ts";

/** One request that has ended. */
export interface RecentRequest {
  readonly endedAt: Date;
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

/** The last requests, oldest first. Bodies only where a person has asked for them, and without what looks like a secret. */
export class RecentRequests {
  readonly keepsBodies: boolean;
  readonly #all: RecentRequest[] = [];
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
    this.#characters += body?.length ?? 0;
    this.#all.push({ endedAt: new Date(), ended, body });
    // Half of them at once: shifting one out for each request would move all others.
    if (this.#all.length >= 2 * requestLimit) this.#drop(this.#all.length - requestLimit);
    while (this.#characters > bodiesLimit) this.#drop(1);
  }

  /** The newest first. */
  list(limit: number): readonly RecentRequest[] {
    return this.#all.slice(-Math.min(limit, requestLimit)).toReversed();
  }

  #drop(count: number): void {
    for (const { body } of this.#all.splice(0, count)) this.#characters -= body?.length ?? 0;
  }
}
