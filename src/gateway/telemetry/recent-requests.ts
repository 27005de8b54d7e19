import type { ErrorCode } from "../../api/errors.ts";
import { maskedText } from "../../api/masked-text.ts";
import type { EndedRequest } from "./request-record.ts";
import { BodyRing } from "./body-ring.ts";

/** One request that has ended. */
export interface RecentRequest {
  /** Milliseconds of the wall clock. */
  readonly endedAt: number;
  readonly requestId: string;
  readonly path: string;
  readonly slot: string;
  readonly requestedModel: string;
  readonly code: number;
  readonly error: ErrorCode | undefined;
  /** The engine's own text about its failure; undefined: it did not fail, or said nothing. */
  readonly engineText: string | undefined;
  readonly isStream: boolean;
  readonly ms: number;
  readonly heldMs: number;
  readonly queuedMs: number;
  /** 0: no token of a stream has arrived. */
  readonly firstTokenMs: number;
  /** The model of the engine that answered, and its time; undefined: no engine answered. */
  readonly resolvedModel: string | undefined;
  readonly engineMs: number | undefined;
  readonly tokensIn: number | undefined;
  readonly tokensOut: number | undefined;
  /** Undefined: bodies are not kept, it had none, or newer ones have taken its room. */
  readonly body: string | undefined;
}

/** The number of requests that are kept, and of the characters of each body that are shown. */
const requestLimit = 500;
const shownCharacters = 16 * 1024;
/** Requests that wait at most until they are put in their places. */
const lateLimit = 128;
/** More than is shown: a secret that begins within the shown part is masked whole if it ends within this. */
const keptBytes = 64 * 1024;

/** The last requests. Bodies only where a person has asked for them, and shown without what looks like a secret. */
export class RecentRequests {
  readonly #bodies: BodyRing | undefined;
  /**
   * A ring of 500 places in columns: the next request overwrites the oldest. Objects would outlive two young collections and
   * fill V8's old space with 0.5 KB a request, for a full collection of 50 ms every 100,000 requests.
   */
  readonly #texts = {
    requestId: texts(""),
    path: texts(""),
    slot: texts(""),
    requestedModel: texts(""),
    resolvedModel: texts<string | undefined>(undefined),
    error: texts<ErrorCode | undefined>(undefined),
    engineText: texts<string | undefined>(undefined),
  };
  /** NaN: unknown. */
  readonly #figures = {
    endedAt: figures(),
    code: figures(),
    isStream: figures(),
    ms: figures(),
    heldMs: figures(),
    queuedMs: figures(),
    firstTokenMs: figures(),
    engineMs: figures(),
    tokensIn: figures(),
    tokensOut: figures(),
    bodyFrom: figures(),
    bodyLength: figures(),
  };
  /** The number of requests since the start, without those below. */
  #count = 0;
  /** The newest ones, not yet in their places: many in a row take less time than as many between other work. */
  readonly #late: EndedRequest[] = [];

  constructor({ keepsBodies }: { readonly keepsBodies: boolean }) {
    this.#bodies = keepsBodies ? new BodyRing() : undefined;
  }

  /** A copy of the part of a request's body that is kept; undefined: bodies are not kept, or it has none. */
  keepBody(body: Buffer | undefined): EndedRequest["record"]["body"] {
    return body === undefined ? undefined : this.#bodies?.keep(body, keptBytes);
  }

  add(request: EndedRequest): void {
    if (this.#late.push(request) >= lateLimit) this.#addLate();
  }

  #addLate(): void {
    for (const request of this.#late) this.#put(request);
    this.#late.length = 0;
  }

  #put({ endedAt, requestId, path, slot, code, seconds, failure, record }: EndedRequest): void {
    const at = this.#count % requestLimit;
    this.#count += 1;
    const { engine, body } = record;
    const text = this.#texts;
    text.requestId[at] = requestId;
    text.path[at] = path;
    text.slot[at] = slot;
    text.requestedModel[at] = record.requestedModel;
    text.resolvedModel[at] = engine?.model;
    text.error[at] = failure?.code;
    text.engineText[at] = failure?.engineText;
    const figure = this.#figures;
    figure.endedAt[at] = endedAt;
    figure.code[at] = code;
    figure.isStream[at] = record.isStream ? 1 : 0;
    figure.ms[at] = seconds * 1000;
    figure.heldMs[at] = record.heldMs;
    figure.queuedMs[at] = record.queuedMs;
    figure.firstTokenMs[at] = record.firstTokenMs;
    figure.engineMs[at] = engine?.ms ?? NaN;
    figure.tokensIn[at] = engine?.tokensIn ?? NaN;
    figure.tokensOut[at] = engine?.tokensOut ?? NaN;
    figure.bodyFrom[at] = body?.from ?? NaN;
    figure.bodyLength[at] = body?.length ?? NaN;
  }

  /** The newest first. */
  list(limit: number): readonly RecentRequest[] {
    this.#addLate();
    const length = Math.min(limit, this.#count, requestLimit);
    return Array.from({ length }, (_, nth) => this.#at((this.#count - 1 - nth) % requestLimit));
  }

  #at(at: number): RecentRequest {
    const text = this.#texts;
    const figure = this.#figures;
    const known = (value: number | undefined): number | undefined => (Number.isNaN(value) ? undefined : value);
    return {
      endedAt: figure.endedAt[at] ?? 0,
      requestId: text.requestId[at] ?? "",
      path: text.path[at] ?? "",
      slot: text.slot[at] ?? "",
      requestedModel: text.requestedModel[at] ?? "",
      code: figure.code[at] ?? 0,
      error: text.error[at],
      engineText: text.engineText[at],
      isStream: figure.isStream[at] === 1,
      ms: figure.ms[at] ?? 0,
      heldMs: figure.heldMs[at] ?? 0,
      queuedMs: figure.queuedMs[at] ?? 0,
      firstTokenMs: figure.firstTokenMs[at] ?? 0,
      resolvedModel: text.resolvedModel[at],
      engineMs: known(figure.engineMs[at]),
      tokensIn: known(figure.tokensIn[at]),
      tokensOut: known(figure.tokensOut[at]),
      body: this.#shown(known(figure.bodyFrom[at]), known(figure.bodyLength[at])),
    };
  }

  #shown(from: number | undefined, length: number | undefined): string | undefined {
    if (from === undefined || length === undefined) return undefined;
    const bytes = this.#bodies?.read({ from, length });
    return bytes === undefined ? undefined : maskedText(bytes.toString()).slice(0, shownCharacters);
  }
}

function texts<T>(none: T): T[] {
  return Array.from({ length: requestLimit }, () => none);
}

function figures(): Float64Array {
  return new Float64Array(requestLimit);
}
