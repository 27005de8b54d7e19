import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { soundRetryAfter, type Refusal } from "./provider-failure.ts";
import type { Mask } from "./mask.ts";

/** The rest of a longer error of a provider is not read. */
const limitBytes = 65_536;
/** The longest time for receiving an error; of a slower error the received part is reported. */
export const defaultErrorTimeoutMs = 10_000;

/** A provider's error that is being received, bounded in size and time. */
export class BegunRefusal {
  readonly #status: number;
  readonly #retryAfter: string | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #body = new GatheredBytes();

  /** Calls `onEnough` once when no more of the error should be read; never after `end`. */
  constructor(
    head: { readonly status: number; readonly retryAfter: string | string[] | undefined },
    timeoutMs: number,
    onEnough: () => void,
  ) {
    this.#status = head.status;
    this.#retryAfter = soundRetryAfter(head.retryAfter);
    this.#timer = setTimeout(onEnough, timeoutMs);
  }

  /** True: no more of the error should be read. */
  add(chunk: Buffer): boolean {
    this.#body.add(chunk);
    return this.#body.size >= limitBytes;
  }

  /** Returns the part of the error that was received. */
  end(mask: Mask): Refusal {
    clearTimeout(this.#timer);
    return { status: this.#status, retryAfter: this.#retryAfter, body: mask.bytes(this.#body.take()) };
  }

  /** Ends the wait for the rest of an error that is not needed any more. */
  drop(): void {
    clearTimeout(this.#timer);
  }
}
