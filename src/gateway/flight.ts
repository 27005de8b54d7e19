import type { ApiError } from "../api/errors.ts";
import { toApiError } from "./answer.ts";
import type { EnginePools } from "../lib/http1/client.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import type { Admission, Line, Place, Visitor } from "./admission/admission.ts";
import type { Endpoint } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import type { KnownSlot } from "./index.ts";
import type { GatewayMetrics } from "./metrics.ts";
import type { AnswerSink } from "./relay/answer.ts";
import type { Sender } from "./relay/relay-options.ts";
import { Relay } from "./relay/relay.ts";
import { ModelRename } from "./relay/rename.ts";
import type { SlotTraffic, Traffic } from "./traffic.ts";
import type { Waiter } from "./stream-hold.ts";
import type { Leg, V1Request } from "./v1/route.ts";

/** What every flight needs beside its own order. */
export interface FlightControl {
  readonly pools: EnginePools;
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "waited">;
  readonly againAfterMs: readonly number[];
  /**
   * The order by what is published now: while it waited its slot may have changed, down to the model that it holds.
   * Throws ApiError where the request does not mean that slot any more, or it does not serve it.
   */
  readonly renew: (order: FlightOrder) => FlightOrder;
}

/** One request to one engine, on behalf of one client or of several that share the answer. */
export interface FlightOrder {
  readonly line: Line;
  readonly slot: KnownSlot;
  readonly asked: V1Request;
  readonly leg: Leg;
  readonly client: string;
  readonly requestId: string;
  readonly sink: AnswerSink;
  readonly owner: FlightOwner;
}

/** On whose behalf it is. */
export interface FlightOwner {
  /** Those who stand in line for the flight; absent: it does so itself. */
  readonly party?: Party;
  onFirstByte(): void;
  /** The engine has taken the request; `isUnused`: its body is in nobody's hands any more. */
  onBodyDone(isUnused: boolean): void;
  /** The engine was not reached: it waits, although it may have gone in at once. */
  onDelayed(flight: Waiter): void;
  /** Called once, however it ends. */
  onSettled(): void;
}

/** Several who share one flight. */
export interface Party {
  /** All go in, or stand in line: the endpoint when they are in already. Throws ApiError when none of them may stay. */
  enter(): Endpoint | undefined;
  leaveLine(): void;
}

/** Milliseconds before the second and the third try of a request whose connection was refused. */
export const defaultAgainAfterMs: readonly number[] = [250, 750];

type Phase = "new" | "waiting" | "again" | "relaying" | "settled";

/**
 * The way of a request from its arrival at a slot to the end of its answer.
 *
 *   new ─▶ waiting ─▶ relaying ─▶ settled      waiting: the slot is not there, or busy
 *              ▲─ again ◀─┘                     again: the engine refused the connection
 */
export class Flight implements Visitor, Sender {
  readonly #control: FlightControl;
  readonly #line: Line;
  readonly #sink: AnswerSink;
  readonly #owner: FlightOwner;
  /** What is sent, kept until the engine answers: it may have to be sent again, and a stream may last for long. */
  #order: FlightOrder | undefined;
  readonly client: string;
  #phase: Phase = "new";
  #relay: Relay | undefined;
  #attempts = 0;
  #admittedAt = 0;
  #waitsSince = 0;
  #traffic: SlotTraffic | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(control: FlightControl, order: FlightOrder) {
    this.#control = control;
    this.#order = order;
    this.#line = order.line;
    this.#sink = order.sink;
    this.#owner = order.owner;
    this.client = order.client;
  }

  get hasBegun(): boolean {
    return this.#sink.hasBegun;
  }

  get isWaiting(): boolean {
    return this.#phase === "waiting" || this.#phase === "again";
  }

  /** It, or its party. */
  get isInLine(): boolean {
    return this.#phase === "waiting";
  }

  get place(): Place {
    return this.#control.admission.place(this.#line, this);
  }

  /** Goes in or stands in line. A refusal goes to the sink. */
  start(): void {
    const { admission, traffic, budget } = this.#control;
    const line = this.#line;
    let endpoint: Endpoint | undefined;
    try {
      const { party } = this.#owner;
      endpoint = party === undefined ? admission.enter(line, this) : party.enter();
      if (endpoint === undefined) {
        this.#phase = "waiting";
        traffic.hold(line.slot);
        try {
          budget.take(this.#bytes);
        } catch (error) {
          this.#leaveLine();
          traffic.release(line.slot);
          throw error;
        }
        this.#waitsSince = performance.now();
      }
    } catch (error) {
      traffic.asked(line.slot);
      this.#refuse(toApiError(error));
      return;
    }
    if (endpoint !== undefined) this.#relayTo(endpoint);
  }

  onAdmitted(endpoint: Endpoint): void {
    this.#endWait();
    this.#relayTo(endpoint);
  }

  onRefused(failure: ApiError): void {
    this.#endWait();
    this.#refuse(failure);
  }

  onFirstByte(): void {
    this.#order = undefined;
    this.#owner.onFirstByte();
  }

  onBodyDone(isUnused: boolean): void {
    this.#owner.onBodyDone(isUnused);
  }

  onByte(): void {
    if (this.#traffic !== undefined) this.#traffic.lastByteAt = steadyNow();
  }

  onUnsent(): boolean {
    // An engine that refuses is about to be found dead, and started again: wait, then stand in line anew.
    const waitMs = this.#control.againAfterMs[this.#attempts - 1];
    if (waitMs === undefined || this.#order === undefined) return false;
    this.#phase = "again";
    this.#control.traffic.hold(this.#line.slot);
    this.#leaveEngine();
    this.#timer = setTimeout(() => {
      this.#control.traffic.release(this.#line.slot);
      this.#phase = "new";
      this.start();
    }, waitMs);
    this.#owner.onDelayed(this);
    return true;
  }

  onSettled(): void {
    this.#leaveEngine();
    this.#settle();
  }

  /** Nobody wants the answer any more. */
  abandon(): void {
    switch (this.#phase) {
      case "waiting":
        this.#leaveLine();
        this.#endWait();
        this.#settle();
        return;
      case "again":
        clearTimeout(this.#timer);
        this.#control.traffic.release(this.#line.slot);
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
    return this.#order?.leg.bytes ?? 0;
  }

  #relayTo(endpoint: Endpoint): void {
    if (this.#order === undefined) throw new Error("a flight that was answered is sent again");
    if (this.#hasWaited) {
      try {
        this.#order = this.#control.renew(this.#order);
      } catch (error) {
        // The place that it was just given is the next one's.
        this.#line.queue.finish();
        this.#refuse(toApiError(error));
        return;
      }
    }
    const { slot, asked, leg, requestId } = this.#order;
    const { firstByte, idle } = slot.spec.timeoutSeconds;
    const timeouts = { firstByteMs: firstByte * 1000, idleMs: idle * 1000 };
    const rename = new ModelRename(leg.served, asked.model);
    this.#phase = "relaying";
    this.#admittedAt = performance.now();
    this.#attempts += 1;
    this.#traffic = this.#control.traffic.begin(this.#line.slot);
    const { budget } = this.#control;
    const relay = new Relay({ sender: this, sink: this.#sink, rename, format: leg.format, body: asked.body, budget });
    this.#relay = relay;
    relay.start(leg.send({ endpoint, pool: this.#control.pools.to(endpoint), requestId, timeouts }, relay));
  }

  #leaveLine(): void {
    const { party } = this.#owner;
    if (party === undefined) this.#line.queue.leave(this);
    else party.leaveLine();
  }

  #leaveEngine(): void {
    this.#control.traffic.end(this.#line.slot);
    this.#control.admission.finish(this.#line, performance.now() - this.#admittedAt);
  }

  #endWait(): void {
    this.#control.traffic.release(this.#line.slot);
    this.#control.budget.give(this.#bytes);
    // Each of a party has waited for a time of its own.
    if (this.#owner.party !== undefined) return;
    this.#control.metrics.waited(this.#line.slot, (performance.now() - this.#waitsSince) / 1000);
  }

  #refuse(failure: ApiError): void {
    this.#sink.refuse(failure);
    this.#settle();
  }

  #settle(): void {
    if (this.#phase === "settled") return;
    this.#phase = "settled";
    this.#order = undefined;
    this.#owner.onSettled();
  }
}
