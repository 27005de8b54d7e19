import type { ApiError } from "../api/errors.ts";
import type { Admission, Line, Visitor } from "./admission/admission.ts";
import type { Endpoint } from "./admission/availability.ts";
import { toApiError } from "./answer.ts";

/** One of several clients for whom a flight is. */
export interface Passenger {
  readonly client: string;
  /** Its client has seen the beginning of a stream. */
  readonly hasBegun: boolean;
  onFirstByte(): void;
  /** It alone goes away: its time is over, or there is no place for it. */
  onRefused(failure: ApiError): void;
}

export interface PassengersOptions {
  readonly admission: Admission;
  readonly line: Line;
  readonly onAdmitted: (endpoint: Endpoint) => void;
  /** One has waited, and waits no more. */
  readonly onWaited: (seconds: number) => void;
  /** The last of those in line was sent away. */
  readonly onDeserted: () => void;
}

/**
 * Those who share a flight. Each stands in its own client's line from when it came, so that nobody waits behind what
 * another client has asked for; the first turn of any is that of all.
 */
export class Passengers {
  readonly #options: PassengersOptions;
  readonly #seats = new Map<Passenger, Seat>();

  constructor(options: PassengersOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#seats.size;
  }

  /** Whose place may stand for that of all. */
  get first(): Visitor | undefined {
    const [seat] = this.#seats.values();
    return seat;
  }

  add(passenger: Passenger): void {
    this.#seats.set(passenger, new Seat(this, passenger));
  }

  /** It has left, in line or not. */
  remove(passenger: Passenger): void {
    const seat = this.#seats.get(passenger);
    if (seat === undefined) return;
    this.#seats.delete(passenger);
    this.#options.line.queue.leave(seat);
    this.#waited(seat);
  }

  /** All go in, or stand in line; whoever is refused hears of it alone. The endpoint when they are in already. */
  enter(): Endpoint | undefined {
    const { admission, line } = this.#options;
    // Once: with some of them in line already, it could let them in.
    admission.look(line);
    for (const passenger of this.#seats.keys()) {
      const endpoint = this.seat(passenger);
      if (endpoint !== undefined) return endpoint;
    }
    return undefined;
  }

  /** The same for one, by what was seen last. */
  seat(passenger: Passenger): Endpoint | undefined {
    const { admission, line } = this.#options;
    const seat = this.#seats.get(passenger);
    if (seat === undefined) return undefined;
    try {
      const endpoint = admission.stand(line, seat);
      if (endpoint === undefined) seat.since = performance.now();
      return endpoint;
    } catch (error) {
      this.#dismiss(passenger, toApiError(error));
      return undefined;
    }
  }

  leaveLine(): void {
    for (const seat of this.#seats.values()) {
      this.#options.line.queue.leave(seat);
      this.#waited(seat);
    }
  }

  onFirstByte(): void {
    for (const passenger of this.#seats.keys()) passenger.onFirstByte();
  }

  onAdmitted(endpoint: Endpoint): void {
    for (const seat of this.#seats.values()) this.#waited(seat);
    this.#options.onAdmitted(endpoint);
  }

  onRefused(passenger: Passenger, failure: ApiError): void {
    this.#dismiss(passenger, failure);
    if (this.#seats.size === 0) this.#options.onDeserted();
  }

  #waited(seat: Seat): void {
    if (seat.since === undefined) return;
    this.#options.onWaited((performance.now() - seat.since) / 1000);
    seat.since = undefined;
  }

  #dismiss(passenger: Passenger, failure: ApiError): void {
    const seat = this.#seats.get(passenger);
    if (seat !== undefined) this.#waited(seat);
    this.#seats.delete(passenger);
    passenger.onRefused(failure);
  }
}

class Seat implements Visitor {
  readonly party: Passengers;
  readonly #passenger: Passenger;
  /** Milliseconds of `performance`; undefined: it does not wait. */
  since: number | undefined;

  constructor(party: Passengers, passenger: Passenger) {
    this.party = party;
    this.#passenger = passenger;
  }

  get client(): string {
    return this.#passenger.client;
  }

  get hasBegun(): boolean {
    return this.#passenger.hasBegun;
  }

  onAdmitted(endpoint: Endpoint): void {
    this.party.onAdmitted(endpoint);
  }

  onRefused(failure: ApiError): void {
    this.party.onRefused(this.#passenger, failure);
  }
}
