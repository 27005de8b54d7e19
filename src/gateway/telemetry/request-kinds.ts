import type { EndedRequest } from "./request-record.ts";

/** Clients choose the names of models freely: at this number all kinds are made again. */
const kindLimit = 256;

export interface KindOptions<Kind> {
  readonly isOf: (kind: Kind, request: EndedRequest) => boolean;
  /** The same for all requests of one kind, and for no other. */
  readonly keyOf: (request: EndedRequest) => string;
  readonly make: (request: EndedRequest) => Kind;
}

/** Keeps what requests of one kind share, such as the bytes that are written for each: it is made once. */
export class RequestKinds<Kind> {
  readonly #options: KindOptions<Kind>;
  readonly #kinds = new Map<string, Kind>();
  #last: Kind | undefined;

  constructor(options: KindOptions<Kind>) {
    this.#options = options;
  }

  of(request: EndedRequest): Kind {
    const { isOf, keyOf, make } = this.#options;
    // Most requests are of the same kind as the one before.
    if (this.#last !== undefined && isOf(this.#last, request)) return this.#last;
    const key = keyOf(request);
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      if (this.#kinds.size >= kindLimit) this.#kinds.clear();
      kind = make(request);
      this.#kinds.set(key, kind);
    }
    this.#last = kind;
    return kind;
  }
}

/** The end of a key: of two names, which clients and engines choose freely, no other two have the same. */
export function modelsAsKey(requested: string, answered: string | undefined): string {
  return answered === undefined ? `- ${requested}` : `${requested.length} ${requested}${answered}`;
}
