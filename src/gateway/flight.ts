import type { ApiError } from "../api/errors.ts";
import { toApiError } from "./answer.ts";
import type { Exchange } from "../lib/http1/client.ts";
import type { Admission, Line, Place, Visitor } from "./admission/admission.ts";
import type { Endpoint } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import type { AnswerSink } from "./relay/answer.ts";
import { Relay, type AnswerTranslation } from "./relay/relay.ts";
import type { ModelRename } from "./relay/rename.ts";
import type { Traffic } from "./traffic.ts";
import type { LegEvents } from "./v1/route.ts";

/** What every flight needs beside its own order. */
export interface FlightControl {
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly againAfterMs: readonly number[];
}

/** One request to one engine, on behalf of one client or of several that share the answer. */
export interface FlightOrder {
  readonly line: Line;
  readonly client: string;
  readonly sink: AnswerSink;
  /** What it keeps in memory while it waits. */
  readonly bytes: number;
  readonly body: Buffer | undefined;
  readonly rename: ModelRename;
  readonly isChat: boolean;
  readonly endMark: RegExp | undefined;
  readonly translation: AnswerTranslation | undefined;
  /** False when its bytes can be sent only once. */
  readonly isRepeatable: boolean;
  send(endpoint: Endpoint, events: LegEvents): Exchange;
  readonly onFirstByte: () => void;
  /** Called once, however it ends. */
  readonly onSettled: () => void;
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
export class Flight implements Visitor {
  readonly #control: FlightControl;
  readonly #order: FlightOrder;
  readonly client: string;
  #phase: Phase = "new";
  #relay: Relay | undefined;
  #attempts = 0;
  #admittedAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(control: FlightControl, order: FlightOrder) {
    this.#control = control;
    this.#order = order;
    this.client = order.client;
  }

  get hasBegun(): boolean {
    return this.#order.sink.hasBegun;
  }

  get isWaiting(): boolean {
    return this.#phase === "waiting" || this.#phase === "again";
  }

  get place(): Place {
    return this.#control.admission.place(this.#order.line, this);
  }

  /** Goes in or stands in line. A refusal goes to the sink. */
  start(): void {
    const { admission, traffic, budget } = this.#control;
    const { line, bytes } = this.#order;
    let endpoint: Endpoint | undefined;
    try {
      endpoint = admission.enter(line, this);
      if (endpoint === undefined) {
        this.#phase = "waiting";
        traffic.hold(line.slot);
        try {
          budget.take(bytes);
        } catch (error) {
          line.queue.leave(this);
          traffic.release(line.slot);
          throw error;
        }
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

  /** Nobody wants the answer any more. */
  abandon(): void {
    switch (this.#phase) {
      case "waiting":
        this.#order.line.queue.leave(this);
        this.#endWait();
        this.#settle();
        return;
      case "again":
        clearTimeout(this.#timer);
        this.#control.traffic.release(this.#order.line.slot);
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

  #relayTo(endpoint: Endpoint): void {
    const { sink, rename, isChat, endMark, translation, body, line, onFirstByte } = this.#order;
    this.#phase = "relaying";
    this.#admittedAt = performance.now();
    this.#attempts += 1;
    const counted = this.#control.traffic.begin(line.slot);
    const relay = new Relay({
      sink,
      rename,
      isChat,
      endMark,
      translation,
      body,
      onFirstByte,
      onByte: () => {
        counted.lastByteAt = Date.now();
      },
      onUnsent: () => this.#goAgain(),
      onSettled: () => {
        this.#leaveEngine();
        this.#settle();
      },
    });
    this.#relay = relay;
    relay.start(this.#order.send(endpoint, relay));
  }

  #leaveEngine(): void {
    this.#control.traffic.end(this.#order.line.slot);
    this.#control.admission.finish(this.#order.line, performance.now() - this.#admittedAt);
  }

  #goAgain(): boolean {
    // An engine that refuses is about to be found dead, and started again: wait, then stand in line anew.
    const waitMs = this.#control.againAfterMs[this.#attempts - 1];
    if (waitMs === undefined || !this.#order.isRepeatable) return false;
    this.#phase = "again";
    this.#control.traffic.hold(this.#order.line.slot);
    this.#leaveEngine();
    this.#timer = setTimeout(() => {
      this.#control.traffic.release(this.#order.line.slot);
      this.#phase = "new";
      this.start();
    }, waitMs);
    return true;
  }

  #endWait(): void {
    this.#control.traffic.release(this.#order.line.slot);
    this.#control.budget.give(this.#order.bytes);
  }

  #refuse(failure: ApiError): void {
    this.#order.sink.refuse(failure);
    this.#settle();
  }

  #settle(): void {
    if (this.#phase === "settled") return;
    this.#phase = "settled";
    this.#order.onSettled();
  }
}
