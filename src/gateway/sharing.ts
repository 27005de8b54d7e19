import type { ApiError } from "../api/errors.ts";
import type { BufferBudget } from "./admission/budget.ts";
import type { Call } from "./call.ts";
import type { Flight, FlightOwner } from "./flight.ts";
import type { Passenger } from "./passengers.ts";
import type { AnswerSink } from "./relay/answer.ts";
import { SharedAnswer } from "./relay/shared-answer.ts";

interface SharedStream {
  readonly flight: Flight;
  readonly answer: SharedAnswer;
}

/** Makes the flight of a stream that nobody waits for yet. */
type Depart = (sink: AnswerSink, owner: FlightOwner) => Flight;

const nothing = (): void => undefined;

/** Streams from slots that are not there: identical ones become one flight (CONTRACT "Cold slots"). */
export class SharedStreams {
  readonly #budget: BufferBudget;
  /** Those that have not begun, by what makes them identical. */
  readonly #open = new Map<string, SharedStream>();
  readonly #tally = { readers: 0 };

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /** Clients that get, or will get, a stream that others may share, until each has the whole of it. */
  get readers(): number {
    return this.#tally.readers;
  }

  /** The call gets the stream of that `key`, which departs with the first that wants it. */
  join(key: string, call: Call, depart: Depart): void {
    const open = this.#open.get(key);
    const joined = open?.answer.isJoinable === true ? open : undefined;
    const { flight, answer } = joined ?? this.#begin(key, depart);
    const reader = new Reader(call, answer);
    answer.join(call.answer);
    call.work = {
      abandon: () => {
        if (answer.leave(call.answer) === 0) flight.abandon();
        else flight.part(reader);
      },
    };
    flight.join(reader);
    if (joined === undefined) flight.start();
    call.holdFor(flight);
  }

  #begin(key: string, depart: Depart): SharedStream {
    const answer: SharedAnswer = new SharedAnswer({
      budget: this.#budget,
      tally: this.#tally,
      onDeserted: () => flight.abandon(),
    });
    const flight: Flight = depart(answer, {
      // Each passenger hears of it.
      onFirstByte: nothing,
      // Each reader has been held since it came, and is told when it waits again.
      onDelayed: nothing,
      onSettled: () => {
        if (this.#open.get(key)?.answer === answer) this.#open.delete(key);
      },
    });
    const stream = { flight, answer };
    this.#open.set(key, stream);
    return stream;
  }
}

/** One of those who share a flight: it stands in its own client's line, for as long as it may. */
class Reader implements Passenger {
  readonly #call: Call;
  readonly #answer: SharedAnswer;

  constructor(call: Call, answer: SharedAnswer) {
    this.#call = call;
    this.#answer = answer;
  }

  get client(): string {
    return this.#call.asker.client;
  }

  get hasBegun(): boolean {
    return this.#call.answer.hasBegun;
  }

  onFirstByte(): void {
    this.#call.onFirstByte();
  }

  onRefused(failure: ApiError): void {
    this.#answer.dismiss(this.#call.answer, failure);
  }
}
