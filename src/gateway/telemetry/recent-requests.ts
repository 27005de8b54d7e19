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

/** A body is in the ring of bodies, until newer ones have taken its room. */
type Kept = Omit<RecentRequest, "body"> & Pick<EndedRequest["record"], "body">;

/** The number of requests that are kept, and of the characters of each body that are shown. */
const requestLimit = 500;
const shownCharacters = 16 * 1024;
/** More than is shown: a secret that begins within the shown part is masked whole if it ends within this. */
const keptBytes = 64 * 1024;

/** The last requests. Bodies only where a person has asked for them, and shown without what looks like a secret. */
export class RecentRequests {
  readonly #bodies: BodyRing | undefined;
  /** A ring: the next request takes the place of the oldest. */
  readonly #ring: Kept[] = [];
  #next = 0;

  constructor({ keepsBodies }: { readonly keepsBodies: boolean }) {
    this.#bodies = keepsBodies ? new BodyRing() : undefined;
  }

  /** A copy of the part of a request's body that is kept; undefined: bodies are not kept, or it has none. */
  keepBody(body: Buffer | undefined): EndedRequest["record"]["body"] {
    return body === undefined ? undefined : this.#bodies?.keep(body, keptBytes);
  }

  add({ endedAt, requestId, path, slot, code, seconds, failure, record }: EndedRequest): void {
    const { engine } = record;
    this.#ring[this.#next] = {
      endedAt,
      requestId,
      path,
      slot,
      requestedModel: record.requestedModel,
      code,
      error: failure?.code,
      engineText: failure?.engineText,
      isStream: record.isStream,
      ms: seconds * 1000,
      heldMs: record.heldMs,
      queuedMs: record.queuedMs,
      firstTokenMs: record.firstTokenMs,
      resolvedModel: engine?.model,
      engineMs: engine?.ms,
      tokensIn: engine?.tokensIn,
      tokensOut: engine?.tokensOut,
      body: record.body,
    };
    this.#next = (this.#next + 1) % requestLimit;
  }

  /** The newest first. */
  list(limit: number): readonly RecentRequest[] {
    const newestFirst = [...this.#ring.slice(this.#next), ...this.#ring.slice(0, this.#next)].toReversed();
    return newestFirst.slice(0, limit).map((kept) => ({ ...kept, body: this.#shown(kept.body) }));
  }

  #shown(body: EndedRequest["record"]["body"]): string | undefined {
    const bytes = body === undefined ? undefined : this.#bodies?.read(body);
    return bytes === undefined ? undefined : maskedText(bytes.toString()).slice(0, shownCharacters);
  }
}
