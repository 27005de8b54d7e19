import { soundRetryAfter, type Refusal } from "./provider-failure.ts";
import type { Mask } from "./mask.ts";

/** More of a provider's error than this helps nobody. */
const limitBytes = 65_536;
/** An error that takes longer is told as far as it has come. */
export const errorPatienceMs = 10_000;

/** A provider's error on its way, bounded in size and time. */
export class BegunRefusal {
  readonly #status: number;
  readonly #retryAfter: string | undefined;
  readonly #timer: NodeJS.Timeout;
  #chunks: Buffer[] = [];
  #size = 0;

  /** `onEnough` hears once that no more of it should be read; never after `end`. */
  constructor(
    head: { readonly status: number; readonly retryAfter: string | string[] | undefined },
    patienceMs: number,
    onEnough: () => void,
  ) {
    this.#status = head.status;
    this.#retryAfter = soundRetryAfter(head.retryAfter);
    this.#timer = setTimeout(onEnough, patienceMs);
  }

  /** True: it is enough. */
  add(chunk: Buffer): boolean {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    return this.#size >= limitBytes;
  }

  /** What has come of it. */
  end(mask: Mask): Refusal {
    clearTimeout(this.#timer);
    const body = mask.bytes(Buffer.concat(this.#chunks));
    return { status: this.#status, retryAfter: this.#retryAfter, body };
  }

  /** Nobody wants it any more. */
  drop(): void {
    clearTimeout(this.#timer);
  }
}
