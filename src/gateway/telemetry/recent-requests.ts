import { maskedText } from "../../api/masked-text.ts";
import type { EndedRequest } from "./request-record.ts";
import { BodyRing, type KeptBody } from "./body-ring.ts";

/** One request that has ended. */
export interface RecentRequest {
  /** Milliseconds of the wall clock. */
  readonly endedAt: number;
  readonly ended: EndedRequest;
  /** Undefined: bodies are not kept, it had none, or newer ones have taken its room. */
  readonly body?: string | undefined;
}

/** The number of requests that are kept, and of the characters of each body that are shown. */
const requestLimit = 500;
const shownCharacters = 16 * 1024;
/** More than is shown: a secret that begins within the shown part is masked whole if it ends within this. */
const keptBytes = 64 * 1024;

/** The last requests. Bodies only where a person has asked for them, and shown without what looks like a secret. */
export class RecentRequests {
  readonly #bodies: BodyRing | undefined;
  /** A ring: the next request replaces the oldest. Each that is kept longer costs V8 a copy in its young collections. */
  readonly #all: (RecentRequest | undefined)[] = Array.from({ length: requestLimit }, () => undefined);
  /** The number of requests since the start. */
  #count = 0;

  constructor({ keepsBodies }: { readonly keepsBodies: boolean }) {
    this.#bodies = keepsBodies ? new BodyRing() : undefined;
  }

  /** A copy of the part of a request's body that is kept; undefined: bodies are not kept, or it has none. */
  keepBody(body: Buffer | undefined): KeptBody | undefined {
    return body === undefined ? undefined : this.#bodies?.keep(body, keptBytes);
  }

  add(ended: EndedRequest): void {
    this.#all[this.#count % requestLimit] = { endedAt: Date.now(), ended };
    this.#count += 1;
  }

  /** The newest first. */
  list(limit: number): readonly RecentRequest[] {
    const newest: RecentRequest[] = [];
    const oldest = Math.max(0, this.#count - requestLimit);
    for (let nth = this.#count - 1; nth >= oldest && newest.length < limit; nth -= 1) {
      const request = this.#all[nth % requestLimit];
      if (request !== undefined) newest.push({ ...request, body: this.#shown(request.ended.record.body) });
    }
    return newest;
  }

  #shown(body: KeptBody | undefined): string | undefined {
    const bytes = body === undefined ? undefined : this.#bodies?.read(body);
    return bytes === undefined ? undefined : maskedText(bytes.toString()).slice(0, shownCharacters);
  }
}
