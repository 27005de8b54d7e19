import { setTimeout as delay } from "node:timers/promises";
import type { Address } from "./address.ts";
import { FetchError } from "./fetch-error.ts";
import type { DownloadProgress } from "./progress.ts";
import { TransferError } from "./transfer.ts";

/** More failures in a row than this end an attempt. Received bytes are kept for the next attempt. */
const mostFailures = 6;
const slowestDelayMs = 15_000;
/** A server that asks for a longer wait ends the attempt. The job waits instead, and its status says so. */
const longestHoldMs = 30_000;

/** The address that all connections of one file use. */
export class Route {
  readonly #find: (signal: AbortSignal) => Promise<Address>;
  #address: Promise<Address> | undefined;
  #heldUntil = 0;
  /** Grows with every byte that is received over any connection. */
  #received = 0;

  /** Without an address, the route resolves the source first. */
  constructor(address: Address | undefined, find: (signal: AbortSignal) => Promise<Address>) {
    this.#find = find;
    if (address !== undefined) this.#address = Promise.resolve(address);
  }

  get received(): number {
    return this.#received;
  }

  /** Resolves with the address, after the wait that the server asked for. Rejects as the resolution does. */
  async current(signal: AbortSignal): Promise<Address> {
    for (;;) {
      const waitMs = this.#heldUntil - performance.now();
      if (waitMs <= 0) break;
      await delay(waitMs, undefined, { signal });
    }
    const address = (this.#address ??= this.#find(signal));
    try {
      return await address;
    } catch (error) {
      if (this.#address === address) this.#address = undefined;
      throw error;
    }
  }

  /** The address no longer works: the next call resolves the source again. */
  expire(): void {
    this.#address = undefined;
  }

  hold(ms: number): void {
    this.#heldUntil = Math.max(this.#heldUntil, performance.now() + ms);
  }

  /** Bytes were received. */
  heard(bytes: number): void {
    this.#received += bytes;
  }
}

/** Counts consecutive failures of connections. The last one that is retried is the `trouble` of the progress. */
export class Retries {
  readonly #route: Route;
  readonly #firstMs: number;
  readonly #progress: Pick<DownloadProgress, "trouble">;
  #failures = 0;
  #received = 0;

  constructor(route: Route, firstMs: number, progress: Pick<DownloadProgress, "trouble">) {
    this.#route = route;
    this.#firstMs = firstMs;
    this.#progress = progress;
  }

  succeeded(): void {
    this.#failures = 0;
  }

  /**
   * Waits before the next try. Rejects with `error` if it is permanent, with FetchError after too many failures
   * without a received byte on any connection, or as `signal` was aborted.
   */
  async failed(error: unknown, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!(error instanceof TransferError) && !(error instanceof FetchError)) throw error;
    const retryAfterMs = error instanceof FetchError ? error.retryAfterMs : undefined;
    const isFinal = error instanceof FetchError && (error.isTerminal || error.reason === "NoSpace");
    if (isFinal || (retryAfterMs ?? 0) > longestHoldMs) throw error;
    if (retryAfterMs !== undefined) this.#route.hold(retryAfterMs);
    if (this.#failures === 0) this.#received = this.#route.received;
    this.#failures += 1;
    if (this.#failures > mostFailures && this.#route.received === this.#received) {
      if (error instanceof FetchError) throw error;
      const count = error.phase === "connect" ? "" : `, ${this.#failures} times in a row`;
      throw new FetchError("FetchFailed", `${error.message}${count}`, { cause: error });
    }
    this.#progress.trouble = error.message;
    // The first failure may concern this connection only: another connection is opened at once.
    if (this.#failures === 1) return;
    const waitMs = Math.min(slowestDelayMs, this.#firstMs * 2 ** (this.#failures - 2));
    await delay(waitMs, undefined, { signal });
  }
}
