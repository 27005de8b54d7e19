import type { ApiError } from "../../api/errors.ts";
import { ExchangeError, type Exchange, type ExchangeEvents, type ResponseHead } from "../../lib/exchange.ts";
import { pause } from "../../lib/on-abort.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Admission } from "../slots/admission.ts";
import { BackendLease } from "../slots/backend-set.ts";
import type { AnswerTokens } from "../slots/backend.ts";
import type { SlotTraffic, Traffic } from "../slots/traffic.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import { prepareAgain, type PreparedForSlot } from "../routing/prepare.ts";
import { engineRefusal, engineWords } from "../relay/engine-failure.ts";
import { leaseOf } from "./queued-call.ts";
import type { Dispatch, Recipient, Turn } from "./recipient.ts";

/** Milliseconds before the second and the third attempt of a request for which no connection could be opened. */
export const defaultAgainAfterMs: readonly number[] = [250, 750];

export interface SlotDispatchOptions {
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly index: () => ResolutionIndex;
  readonly againAfterMs: readonly number[];
}

/** A request for a slot, and the queue that it enters there. */
export interface SlotEntry {
  readonly prepared: PreparedForSlot;
  readonly waitQueue: WaitQueue;
}

/** The dispatch of a request to an engine of its slot, from its first wait to the end of its last attempt. */
export class SlotDispatch implements Dispatch {
  readonly #options: SlotDispatchOptions;
  readonly #waitQueue: WaitQueue;
  readonly #to: Recipient;
  #prepared: PreparedForSlot;
  #lease: BackendLease | undefined;
  #traffic: SlotTraffic | undefined;
  /** Counts the leases that the request got from its queue, and not the moves to another replica. */
  #leaseCount = 0;
  /** When the present attempt began, by the steady clock. */
  #since = 0;

  constructor(options: SlotDispatchOptions, { prepared, waitQueue }: SlotEntry, to: Recipient) {
    this.#options = options;
    this.#waitQueue = waitQueue;
    this.#prepared = prepared;
    this.#to = to;
  }

  /** The request as it is sent: made again where the slot has changed while the request waited. */
  get prepared(): PreparedForSlot {
    return this.#prepared;
  }

  get name(): string {
    return this.#waitQueue.slot;
  }

  get attempt(): Dispatch["attempt"] {
    if (this.#lease === undefined) return undefined;
    const { endpoint } = this.#lease.backend;
    return { startedAt: this.#since, ms: steadyNow() - this.#since, endpoint };
  }

  enter(): Promise<void> | undefined {
    const { slot } = this.#waitQueue;
    let arrived: BackendLease | Turn<BackendLease>;
    try {
      arrived = this.#to.arrive(this.#waitQueue, this.#prepared.backendRequest.prompt);
    } catch (error) {
      this.#options.traffic.requested(slot);
      throw error;
    }
    if (!(arrived instanceof BackendLease)) return this.#wait(arrived);
    this.#take(arrived, this.#leaseCount > 0);
    return undefined;
  }

  send(events: ExchangeEvents): Exchange {
    const lease = this.#lease;
    if (lease === undefined) throw new Error("a request is sent without a lease");
    const { backendRequest, slot } = this.#prepared;
    const { pool: transport, endpoint } = lease.backend;
    const { firstByte, idle } = slot.spec.timeoutSeconds;
    const timeouts = { firstByteMs: firstByte * 1000, idleMs: idle * 1000 };
    const { requestId, trace } = this.#to;
    const destination = { transport, endpoint, requestId, trace: trace?.forAttempt(), timeouts };
    return backendRequest.exchange?.(destination, events) ?? transport.send(backendRequest, destination, events);
  }

  heard(): void {
    const now = steadyNow();
    if (this.#traffic !== undefined) this.#traffic.lastByteAt = now;
    if (this.#lease !== undefined) this.#lease.backend.lastByteAt = now;
  }

  succeeded(): void {}

  /** The engine's refusal in our words. */
  refusal({ status }: ResponseHead, body: Buffer): ApiError {
    const { request, backendRequest } = this.#prepared;
    const { translation } = backendRequest.format;
    const refusal = translation?.refusal?.(status, body) ?? engineRefusal(status, body, request.body);
    refusal.engineText ??= engineWords(status, body);
    return refusal;
  }

  /** A backend that could not be reached, or broke the connection, is avoided by new requests for a while. */
  failed(error: Error): Error {
    if (error instanceof ExchangeError && /^(connect|closed|broken)$/.test(error.phase)) this.#lease?.fail();
    return error;
  }

  answered(_isWhole: boolean, usage: AnswerTokens | undefined, tokensOut: number | undefined): void {
    this.#lease?.backend.context.answered(usage, tokensOut);
  }

  masked(failure: ApiError): ApiError {
    return failure;
  }

  /**
   * Resolves with true once the request, which has reached no engine, may be sent again: at once to another replica, or after a
   * pause and another wait in the queue, since an engine that refuses the connection is probably dead and will be restarted.
   */
  async retry(error: unknown): Promise<boolean> {
    if (!(error instanceof ExchangeError) || (error.phase !== "connect" && error.phase !== "shortage")) return false;
    const lease = this.#lease;
    if (lease === undefined) return false;
    const { admission, traffic, againAfterMs } = this.#options;
    const isRefused = error.phase === "connect";
    if (isRefused && lease.move()) {
      this.#since = steadyNow();
      return true;
    }
    let pauseMs = againAfterMs[this.#leaseCount - 1];
    if (pauseMs === undefined && isRefused && admission.markLost(this.#waitQueue, lease)) pauseMs = 0;
    if (pauseMs === undefined) return false;
    traffic.hold(this.#waitQueue.slot);
    this.#leave();
    try {
      await this.#pause(pauseMs);
    } finally {
      traffic.release(this.#waitQueue.slot);
    }
    await this.enter();
    return true;
  }

  [Symbol.dispose](): void {
    this.#leave();
  }

  async #wait(turn: Turn<BackendLease>): Promise<void> {
    const { traffic } = this.#options;
    const { slot } = this.#waitQueue;
    traffic.hold(slot);
    try {
      this.#take(await leaseOf(turn, this.#to.signal), true);
    } finally {
      traffic.release(slot);
    }
  }

  /** `hasWaited`: the slot may have changed meanwhile. */
  #take(lease: BackendLease, hasWaited: boolean): void {
    try {
      this.#to.signal.throwIfAborted();
      if (hasWaited) this.#renew();
    } catch (error) {
      lease.release();
      throw error;
    }
    this.#lease = lease;
    this.#leaseCount += 1;
    this.#since = steadyNow();
    this.#traffic = this.#options.traffic.begin(this.#waitQueue.slot, this.#since);
  }

  #renew(): void {
    const { backendRequest } = this.#prepared;
    this.#prepared = prepareAgain(this.#options.index(), this.#prepared);
    if (this.#prepared.backendRequest !== backendRequest) backendRequest.drop?.();
  }

  #leave(): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    this.#lease = undefined;
    const now = steadyNow();
    this.#options.traffic.end(this.#waitQueue.slot, now);
    this.#options.admission.finish(this.#waitQueue, lease, now - this.#since);
  }

  async #pause(ms: number): Promise<void> {
    const { admission } = this.#options;
    using stack = new DisposableStack();
    for (const client of this.#to.clients) stack.use(client.reportWait(() => admission.waitReport(this.#waitQueue)));
    await pause(ms, this.#to.signal);
  }
}
