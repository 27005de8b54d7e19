import { ApiError } from "../../api/errors.ts";
import { GatheredBytes } from "../../lib/gathered-bytes.ts";
import { Charge, type BufferBudget } from "../slots/budget.ts";
import { toApiError } from "../http/answer.ts";

/** A JSON answer is small; a larger one is relayed without waiting for its end. */
const wholeLimitBytes = 8 * 1024 * 1024;
/** A translated answer cannot be relayed in pieces: a larger one is refused. */
const translatedLimitBytes = 16 * 1024 * 1024;
/** Up to this size an answer costs no more than the buffers of its connections. */
const uncountedBytes = 65_536;

/** An answer that is buffered until its end, bounded and charged to the budget. */
export class BufferedAnswer implements Disposable {
  readonly #gathered = new GatheredBytes();
  readonly #charge: Charge;
  readonly #limitBytes: number;
  #isCharged = false;

  constructor(budget: BufferBudget, { isTranslated }: { isTranslated: boolean }) {
    this.#charge = new Charge(budget);
    this.#limitBytes = isTranslated ? translatedLimitBytes : wholeLimitBytes;
  }

  /** Keeps the bytes in any case. Returns why no more may be kept; undefined: more may. */
  add(bytes: Buffer): ApiError | undefined {
    this.#gathered.add(bytes);
    const { size } = this.#gathered;
    if (size <= uncountedBytes) return undefined;
    if (size > this.#limitBytes)
      return new ApiError("dispatch.upstream_failed", { message: "the engine's answer is too large to be translated" });
    try {
      this.#charge.take(this.#isCharged ? bytes.length : size);
      this.#isCharged = true;
      return undefined;
    } catch (error) {
      return toApiError(error);
    }
  }

  /** All bytes; the charge stays until it is disposed. */
  take(): Buffer {
    return this.#gathered.take();
  }

  [Symbol.dispose](): void {
    this.#gathered.clear();
    this.#charge.end();
  }
}
