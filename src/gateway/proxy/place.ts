import { ExchangeError } from "../../lib/exchange.ts";
import { onAbort } from "../../lib/on-abort.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Admission } from "../slots/admission.ts";
import type { Endpoint } from "../slots/availability.ts";
import type { Backend } from "../slots/backend.ts";
import { BackendLease } from "../slots/backend-set.ts";
import type { SlotTraffic, Traffic } from "../slots/traffic.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import { routeAgain, type SlotRoute } from "../routing/route-request.ts";
import type { Recipient, Turn } from "./recipient.ts";

/** Milliseconds before the second and the third attempt of a request whose connection was refused. */
export const defaultAgainAfterMs: readonly number[] = [250, 750];

export interface PlaceOptions {
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly index: () => ResolutionIndex;
  readonly againAfterMs: readonly number[];
}

/** The place of a request at an engine of its slot, from its first wait to the end of its last attempt. */
export class Place implements Disposable {
  readonly #options: PlaceOptions;
  readonly #waitQueue: WaitQueue;
  readonly #to: Recipient;
  #route: SlotRoute;
  #lease: BackendLease | undefined;
  #traffic: SlotTraffic | undefined;
  #attempts = 0;
  /** When the request got the place, by the steady clock. */
  #since = 0;

  constructor(options: PlaceOptions, waitQueue: WaitQueue, route: SlotRoute, to: Recipient) {
    this.#options = options;
    this.#waitQueue = waitQueue;
    this.#route = route;
    this.#to = to;
  }

  /** The request as it is sent: made again where the slot has changed while the request waited. */
  get route(): SlotRoute {
    return this.#route;
  }

  /** Undefined while the request has no place. */
  get backend(): Backend | undefined {
    return this.#lease?.backend;
  }

  /** The time at that backend so far. */
  get attempt(): { readonly startedAt: number; readonly ms: number; readonly endpoint: Endpoint } | undefined {
    if (this.#lease === undefined) return undefined;
    const { endpoint } = this.#lease.backend;
    return { startedAt: this.#since, ms: steadyNow() - this.#since, endpoint };
  }

  /** Waits for the place where none is free. Rejects with ApiError where the request is refused. */
  enter(): Promise<void> | undefined {
    const entered = this.#arrive();
    if (!(entered instanceof BackendLease)) return this.#wait(entered);
    this.#take(entered);
    if (this.#attempts > 1) this.#renew();
    return undefined;
  }

  /** The backend could not be reached, or has broken the connection: new requests avoid it for a while. */
  fail(): void {
    this.#lease?.fail();
  }

  /** A byte of the answer has arrived. */
  heard(): void {
    const now = steadyNow();
    if (this.#traffic !== undefined) this.#traffic.lastByteAt = now;
    if (this.#lease !== undefined) this.#lease.backend.lastByteAt = now;
  }

  /**
   * Whether the request, which has reached no engine, is to be sent once more: from another replica, or after a pause, since
   * an engine that refuses the connection is probably dead and will be restarted.
   */
  async retry(error: unknown): Promise<boolean> {
    if (!(error instanceof ExchangeError) || (error.phase !== "connect" && error.phase !== "shortage")) return false;
    const lease = this.#lease;
    if (lease === undefined) return false;
    const { admission, traffic, againAfterMs } = this.#options;
    const isRefused = error.phase === "connect";
    if (isRefused && lease.move()) return true;
    const isLost = (): boolean => isRefused && admission.lost(this.#waitQueue, lease);
    const pauseMs = againAfterMs[this.#attempts - 1] ?? (isLost() ? 0 : undefined);
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

  #arrive(): BackendLease | Turn {
    try {
      return this.#to.enter(this.#route, this.#waitQueue);
    } catch (error) {
      this.#options.traffic.requested(this.#waitQueue.slot);
      throw error;
    }
  }

  async #wait(turn: Turn): Promise<void> {
    const { traffic } = this.#options;
    const { slot } = this.#waitQueue;
    traffic.hold(slot);
    try {
      using _ = turn;
      using __ = onAbort(this.#to.signal, (reason) => turn.refuse(reason));
      this.#take(await turn.lease);
    } finally {
      traffic.release(slot);
    }
    this.#to.signal.throwIfAborted();
    this.#renew();
  }

  #take(lease: BackendLease): void {
    this.#lease = lease;
    this.#attempts += 1;
    this.#since = steadyNow();
    this.#traffic = this.#options.traffic.begin(this.#waitQueue.slot, this.#since);
  }

  #renew(): void {
    this.#route = routeAgain(this.#options.index(), this.#route);
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
    for (const client of this.#to.clients) stack.use(client.hold(() => admission.place(this.#waitQueue)));
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(resolve, ms);
      stack.defer(() => clearTimeout(timer));
      stack.use(onAbort(this.#to.signal, reject));
    });
  }
}
