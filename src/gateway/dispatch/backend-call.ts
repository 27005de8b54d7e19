import type { ApiError } from "../../api/errors.ts";
import { toApiError } from "../http/answer.ts";
import { ExchangeError } from "../../lib/exchange.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { WaitPlace } from "../slots/admission.ts";
import type { WaitQueue, Waiter } from "../slots/wait-queue.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { Prompt } from "../slots/prefix-hashes.ts";
import type { AnswerSink } from "../relay/answer.ts";
import type { Sender } from "../relay/relay-options.ts";
import type { Usage } from "../relay/answer-usage.ts";
import { Relay } from "../relay/relay.ts";
import { ModelRename } from "../relay/rename.ts";
import { routeAgain } from "../routing/route-request.ts";
import type { BackendCallDependencies, BackendCallOptions, BackendCallOwner } from "./backend-call-options.ts";
import { countTokens, TokenTimes } from "./token-times.ts";
import type { SlotTraffic } from "./traffic.ts";

/** Milliseconds before the second and the third attempt of a request whose connection was refused. */
export const defaultAgainAfterMs: readonly number[] = [250, 750];

type Phase = "new" | "waiting" | "again" | "relaying" | "settled";

/**
 * The course of a request from its arrival at a slot to the end of its answer.
 *
 *   new ─▶ waiting ─▶ relaying ─▶ settled      waiting: the slot is not loaded, or busy
 *              ▲─ again ◀─┘                     again: every engine refused the connection
 */
export class BackendCall implements Waiter, Sender {
  readonly #control: BackendCallDependencies;
  readonly #waitQueue: WaitQueue;
  readonly #sink: AnswerSink;
  readonly #owner: BackendCallOwner;
  /** The request, kept until the engine answers: it may have to be sent again, and a stream may last for long. */
  #options: BackendCallOptions | undefined;
  readonly client: string;
  #phase: Phase = "new";
  #relay: Relay | undefined;
  /** The lease of a backend, while it has one. */
  #lease: BackendLease | undefined;
  #attempts = 0;
  #admittedAt = 0;
  #waitsSince = 0;
  #traffic: SlotTraffic | undefined;
  #served = "";
  #tokens: TokenTimes | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(control: BackendCallDependencies, options: BackendCallOptions) {
    this.#control = control;
    this.#options = options;
    this.#waitQueue = options.waitQueue;
    this.#sink = options.sink;
    this.#owner = options.owner;
    this.client = options.client;
  }

  get hasBegun(): boolean {
    return this.#sink.hasBegun;
  }

  get isWaiting(): boolean {
    return this.#phase === "waiting" || this.#phase === "again";
  }

  /** It, or its group. */
  get isQueued(): boolean {
    return this.#phase === "waiting";
  }

  get prompt(): Prompt | undefined {
    return this.#options?.route.backendRequest.prompt;
  }

  get place(): WaitPlace {
    return this.#control.admission.place(this.#waitQueue, this);
  }

  /** Enters the queue. A refusal goes to the sink. */
  start(): void {
    const { admission, traffic, budget } = this.#control;
    const waitQueue = this.#waitQueue;
    let lease: BackendLease | undefined;
    try {
      const { group } = this.#owner;
      lease = group === undefined ? admission.enter(waitQueue, this) : group.enter();
      if (lease === undefined) {
        this.#phase = "waiting";
        traffic.hold(waitQueue.slot);
        try {
          budget.take(this.#bytes);
        } catch (error) {
          this.#leaveQueue();
          traffic.release(waitQueue.slot);
          throw error;
        }
        this.#waitsSince = steadyNow();
      }
    } catch (error) {
      traffic.requested(waitQueue.slot);
      this.#refuse(toApiError(error));
      return;
    }
    if (lease !== undefined) this.#admitted(lease);
  }

  onAdmitted(lease: BackendLease): void {
    this.#endWait();
    this.#admitted(lease);
  }

  onRefused(failure: ApiError): void {
    this.#endWait();
    this.#refuse(failure);
  }

  onFirstByte(): void {
    this.#options = undefined;
    this.#owner.onFirstByte();
  }

  onBodyDone(isUnused: boolean): void {
    this.#owner.onBodyDone(isUnused);
  }

  onByte(): void {
    const now = steadyNow();
    if (this.#traffic !== undefined) this.#traffic.lastByteAt = now;
    if (this.#lease !== undefined) this.#lease.backend.lastByteAt = now;
  }

  onTokens(count: number): void {
    if (this.#tokens === undefined) this.#owner.onFirstToken();
    this.#tokens ??= new TokenTimes(this.#control.metrics.ofSlot(this.#waitQueue.slot));
    this.#tokens.arrived(count);
  }

  onFailed(error: Error): boolean {
    const lease = this.#lease;
    if (lease === undefined || !(error instanceof ExchangeError)) return false;
    const { phase } = error;
    if (phase === "connect" || phase === "closed" || phase === "broken") lease.fail();
    if (phase !== "connect" && phase !== "shortage") return false;
    if (phase === "connect" && this.#options !== undefined && lease.move()) {
      this.#send(this.#options, lease);
      return true;
    }
    // An engine that refuses the connection is probably dead, and will be restarted: wait, then enter the queue again.
    const isLost = (): boolean => phase === "connect" && this.#control.admission.lost(this.#waitQueue, lease);
    const waitMs = this.#control.againAfterMs[this.#attempts - 1] ?? (isLost() ? 0 : undefined);
    if (waitMs === undefined || this.#options === undefined) return false;
    this.#phase = "again";
    this.#control.traffic.hold(this.#waitQueue.slot);
    this.#leaveEngine(steadyNow());
    this.#timer = setTimeout(() => {
      this.#control.traffic.release(this.#waitQueue.slot);
      this.#phase = "new";
      this.start();
    }, waitMs);
    this.#owner.onDelayed(this);
    return true;
  }

  onSettled(usage: Readonly<Usage> | undefined): void {
    const tokensIn = usage?.input;
    const tokensOut = usage?.output ?? this.#tokens?.count;
    const backend = this.#lease?.backend;
    backend?.context.answered(usage, tokensOut);
    const startedAt = this.#admittedAt;
    const now = steadyNow();
    const endpoint = backend?.endpoint;
    const part = { startedAt, ms: now - startedAt, model: this.#served, endpoint, tokensIn, tokensOut };
    countTokens(this.#control.metrics.ofSlot(this.#waitQueue.slot), part, this.#tokens?.count);
    this.#owner.onEngineDone(part);
    this.#leaveEngine(now);
    this.#settle();
  }

  /** The answer is not needed any more. */
  abandon(): void {
    switch (this.#phase) {
      case "waiting":
        this.#leaveQueue();
        this.#endWait();
        this.#settle();
        return;
      case "again":
        clearTimeout(this.#timer);
        this.#control.traffic.release(this.#waitQueue.slot);
        this.#settle();
        return;
      case "relaying":
        this.#relay?.abort();
        return;
      case "new":
      case "settled":
        return;
      default:
        this.#phase satisfies never;
    }
  }

  get #hasWaited(): boolean {
    return this.#waitsSince > 0 || this.#attempts > 0;
  }

  get #bytes(): number {
    return this.#options?.route.backendRequest.bytes ?? 0;
  }

  #admitted(lease: BackendLease): void {
    if (this.#options === undefined) throw new Error("a backend call that was answered is sent again");
    if (this.#hasWaited) {
      try {
        const route = routeAgain(this.#control.index(), this.#options.route);
        if (route !== this.#options.route) this.#options = { ...this.#options, route };
      } catch (error) {
        // The place that it was just given goes to the next request.
        lease.release();
        this.#refuse(toApiError(error));
        return;
      }
    }
    this.#phase = "relaying";
    this.#admittedAt = steadyNow();
    this.#attempts += 1;
    this.#traffic = this.#control.traffic.begin(this.#waitQueue.slot, this.#admittedAt);
    this.#lease = lease;
    this.#send(this.#options, lease);
  }

  #send({ route, requestId, trace }: BackendCallOptions, { backend }: BackendLease): void {
    const { slot, request, backendRequest } = route;
    this.#served = backendRequest.served;
    const { firstByte, idle } = slot.spec.timeoutSeconds;
    const timeouts = { firstByteMs: firstByte * 1000, idleMs: idle * 1000 };
    const rename = new ModelRename(backendRequest.served, request.model);
    const { budget } = this.#control;
    const relay = new Relay({
      sender: this,
      sink: this.#sink,
      rename,
      format: backendRequest.format,
      body: request.body,
      isStream: request.isStream,
      budget,
    });
    this.#relay = relay;
    const to = { transport: backend.pool, endpoint: backend.endpoint, requestId, trace, timeouts };
    relay.start(backendRequest.exchange?.(to, relay) ?? to.transport.send(backendRequest, to, relay));
  }

  #leaveQueue(): void {
    const { group } = this.#owner;
    if (group === undefined) this.#waitQueue.queue.leave(this);
    else group.leaveQueue();
  }

  #leaveEngine(now: number): void {
    const lease = this.#lease;
    if (lease === undefined) return;
    this.#lease = undefined;
    this.#control.traffic.end(this.#waitQueue.slot, now);
    this.#control.admission.finish(this.#waitQueue, lease, now - this.#admittedAt);
  }

  #endWait(): void {
    this.#control.traffic.release(this.#waitQueue.slot);
    this.#control.budget.give(this.#bytes);
    // Each member of a group has waited for a time of its own.
    if (this.#owner.group !== undefined) return;
    const now = steadyNow();
    const waitMs = now - this.#waitsSince;
    const holdMs = this.#waitQueue.queue.heldMs(waitMs, now);
    this.#control.metrics.waited(this.#waitQueue.slot, { waitMs, holdMs });
    this.#owner.onWaited(waitMs, holdMs);
  }

  #refuse(failure: ApiError): void {
    this.#sink.refuse(failure);
    this.#settle();
  }

  #settle(): void {
    if (this.#phase === "settled") return;
    this.#phase = "settled";
    this.#options = undefined;
    this.#owner.onSettled();
  }
}
