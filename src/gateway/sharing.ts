import type { ApiError } from "../api/errors.ts";
import type { Admission, Line, Place, Visitor } from "./admission/admission.ts";
import type { Endpoint } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import { noCharge, type Charge } from "./admission/charge.ts";
import { toApiError } from "./answer.ts";
import type { Call } from "./call.ts";
import type { Flight, FlightOwner, Party } from "./flight.ts";
import type { GatewayMetrics } from "./metrics.ts";
import type { AnswerSink } from "./relay/answer.ts";
import { SharedAnswer } from "./relay/shared-answer.ts";
import type { Waiter } from "./stream-hold.ts";

export interface SharingControl {
  readonly admission: Admission;
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "waited">;
}

/** Makes the flight of a stream that nobody waits for yet. */
type Depart = (sink: AnswerSink, owner: FlightOwner) => Flight;

/** Streams from slots that are not there: identical ones become one flight (CONTRACT "Cold slots"). */
export class SharedStreams {
  readonly #control: SharingControl;
  /** By what makes them identical; those that have begun may be among them. */
  readonly #open = new Map<string, SharedStream>();
  readonly #tally = { readers: 0 };

  constructor(control: SharingControl) {
    this.#control = control;
  }

  /** Clients that get, or will get, a stream that others may share, until each has the whole of it. */
  get readers(): number {
    return this.#tally.readers;
  }

  /** The call gets the stream of that `key`, which departs with the first that wants it. */
  join(key: string, line: Line, call: Call, depart: Depart): void {
    // Before anybody is found to wait: this may let them in, or send them away.
    this.#control.admission.look(line);
    const open = this.#open.get(key);
    const stream = open?.isJoinable === true ? open : this.#begin(key, line, depart);
    stream.join(call);
  }

  #begin(key: string, line: Line, depart: Depart): SharedStream {
    const onSettled = (): void => {
      if (this.#open.get(key) === stream) this.#open.delete(key);
    };
    const stream: SharedStream = new SharedStream(this.#control, { line, tally: this.#tally, depart, onSettled });
    this.#open.set(key, stream);
    return stream;
  }
}

interface SharedStreamOptions {
  readonly line: Line;
  readonly tally: { readers: number };
  readonly depart: Depart;
  readonly onSettled: () => void;
}

/**
 * One flight for several. Each stands in its own client's line from when it came, so that nobody waits behind what
 * another client has asked for, and for as long as it may; the first turn of any is that of all.
 */
class SharedStream implements FlightOwner, Party {
  readonly control: SharingControl;
  readonly line: Line;
  readonly flight: Flight;
  readonly #answer: SharedAnswer;
  readonly #passengers = new Set<Passenger>();
  readonly #onSettled: () => void;
  /** Of the body that is sent: the first one's. */
  #charge: Charge = noCharge;

  constructor(control: SharingControl, { line, tally, depart, onSettled }: SharedStreamOptions) {
    this.control = control;
    this.line = line;
    this.#onSettled = onSettled;
    this.#answer = new SharedAnswer({ budget: control.budget, tally, onDeserted: () => this.flight.abandon() });
    this.flight = depart(this.#answer, this);
  }

  get party(): Party {
    return this;
  }

  get isJoinable(): boolean {
    return this.#answer.isJoinable;
  }

  join(call: Call): void {
    const passenger = new Passenger(this, call);
    const isFirst = this.#passengers.size === 0;
    this.#passengers.add(passenger);
    this.#answer.join(call.answer);
    call.work = passenger;
    const charge = call.handOver();
    if (isFirst) this.#charge = charge;
    else charge.end();
    if (isFirst) this.flight.start();
    else if (this.flight.isInLine) this.#stand(passenger);
    call.holdFor(passenger);
  }

  /** Its client has left; with the last one all is over. */
  leave(passenger: Passenger): void {
    this.#passengers.delete(passenger);
    passenger.leaveLine();
    if (this.#answer.leave(passenger.call.answer) === 0) this.flight.abandon();
  }

  /** One that stood in line is sent away. */
  refuse(passenger: Passenger, failure: ApiError): void {
    if (!this.#dismiss(passenger, failure)) this.flight.onRefused(failure);
  }

  enter(): Endpoint | undefined {
    // Once: with some of them in line already, it could let them in.
    this.control.admission.look(this.line);
    for (const passenger of this.#passengers) {
      const endpoint = this.#stand(passenger);
      if (endpoint !== undefined) return endpoint;
    }
    return undefined;
  }

  leaveLine(): void {
    for (const passenger of this.#passengers) passenger.leaveLine();
  }

  onAdmitted(endpoint: Endpoint): void {
    for (const passenger of this.#passengers) passenger.endWait();
    this.flight.onAdmitted(endpoint);
  }

  onFirstByte(): void {
    for (const { call } of this.#passengers) call.onFirstByte();
  }

  onBodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }

  onSettled(): void {
    this.#charge.end();
    this.#onSettled();
  }

  onDelayed(): void {
    for (const passenger of this.#passengers) passenger.call.holdFor(passenger);
  }

  #stand(passenger: Passenger): Endpoint | undefined {
    try {
      return passenger.stand();
    } catch (error) {
      const failure = toApiError(error);
      if (!this.#dismiss(passenger, failure)) throw failure;
      return undefined;
    }
  }

  /** Tells one alone. False for the last: its failure is that of the flight, which tells it. */
  #dismiss(passenger: Passenger, failure: ApiError): boolean {
    passenger.endWait();
    if (this.#passengers.size === 1) return false;
    this.#passengers.delete(passenger);
    this.#answer.dismiss(passenger.call.answer, failure);
    return true;
  }
}

/** One of those who share a stream. */
class Passenger implements Visitor, Waiter {
  readonly party: SharedStream;
  readonly call: Call;
  /** Since when it stands in line, in milliseconds of `performance`. */
  #since: number | undefined;

  constructor(party: SharedStream, call: Call) {
    this.party = party;
    this.call = call;
  }

  get client(): string {
    return this.call.asker.client;
  }

  get hasBegun(): boolean {
    return this.call.answer.hasBegun;
  }

  get isWaiting(): boolean {
    return this.party.flight.isWaiting;
  }

  get place(): Place {
    const { control, line } = this.party;
    return control.admission.place(line, this);
  }

  /** By what was seen last of its slot: the endpoint when it is in already. Throws ApiError when refused. */
  stand(): Endpoint | undefined {
    const { control, line } = this.party;
    const endpoint = control.admission.stand(line, this);
    if (endpoint === undefined) this.#since = performance.now();
    return endpoint;
  }

  onAdmitted(endpoint: Endpoint): void {
    this.party.onAdmitted(endpoint);
  }

  onRefused(failure: ApiError): void {
    this.party.refuse(this, failure);
  }

  abandon(): void {
    this.party.leave(this);
  }

  leaveLine(): void {
    this.party.line.queue.leave(this);
    this.endWait();
  }

  /** It stands in line no longer. */
  endWait(): void {
    if (this.#since === undefined) return;
    const { control, line } = this.party;
    control.metrics.waited(line.slot, (performance.now() - this.#since) / 1000);
    this.#since = undefined;
  }
}
