import type { ServerResponse } from "node:http";
import { noCharge, type Charge } from "./admission/charge.ts";
import type { FlightOwner } from "./flight.ts";
import { noSlot, type GatewayMetrics, type RouteMetrics } from "./metrics.ts";
import type { Answer } from "./relay/answer.ts";
import { StreamHold, type HoldTimes, type Waiter } from "./stream-hold.ts";
import type { V1Request, V1Route } from "./v1/route.ts";

/** Who asks, as far as queues and shared streams care. */
export interface Asker {
  /** Requests of one client stand in line behind each other. */
  readonly client: string;
  /** Streams are shared only among those with the same rights. */
  readonly scope: string;
  /** Whose answers are whose. Without authentication everybody is the same. */
  readonly principal: string;
}

export const nobody: Asker = { client: "", scope: "", principal: "" };

/** What is done for a client, and can be given up. */
interface Work {
  abandon(): void;
}

/** One client's request, from its header to the end of its answer. */
export class Call implements FlightOwner {
  readonly route: V1Route;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly answer: Answer;
  readonly #began = performance.now();
  readonly #gatewayMetrics: GatewayMetrics;
  readonly #holdTimes: HoldTimes;
  #hold: StreamHold | undefined;
  /** Its client reads events, and can be told that it waits. */
  isStream = false;
  asker: Asker = nobody;
  #charge: Charge;
  #slot = noSlot;
  #metrics: RouteMetrics | undefined;
  /** What has to be told when it is over, if anything: the rest of a request is free to go once it is sent. */
  leftover: V1Request | undefined;
  /**
   * Ends what is done for this client alone. An object, made at once: whatever hangs on a function that is assigned
   * to a field outlives V8's young collections (docs/performance.md), here every request with its body.
   */
  work: Work | undefined;

  constructor(
    route: V1Route,
    own: { response: ServerResponse; requestId: string; answer: Answer; charge: Charge },
    { metrics, holdTimes }: { readonly metrics: GatewayMetrics; readonly holdTimes: HoldTimes },
  ) {
    this.route = route;
    this.response = own.response;
    this.requestId = own.requestId;
    this.answer = own.answer;
    this.#charge = own.charge;
    this.#gatewayMetrics = metrics;
    this.#holdTimes = holdTimes;
  }

  /** The slot that answers, or `upstream NAME`. */
  get slot(): string {
    return this.#slot;
  }

  set slot(slot: string) {
    this.#slot = slot;
    this.#metrics = undefined;
  }

  get seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  get metrics(): RouteMetrics {
    return (this.#metrics ??= this.#gatewayMetrics.of(this.route.path, this.#slot));
  }

  /** From now on the client of a stream hears that `waiter` waits, where it does. */
  holdFor(waiter: Waiter): void {
    if (!this.isStream || !waiter.isWaiting || this.#hold?.waiter === waiter) return;
    this.#hold?.end();
    this.#hold = new StreamHold(this.answer, waiter, this.#holdTimes);
  }

  endHold(): void {
    this.#hold?.end();
  }

  onDelayed(flight: Waiter): void {
    this.holdFor(flight);
  }

  onFirstByte(): void {
    this.metrics.firstByte.observe(this.seconds);
  }

  /** What the request's body takes, until it is sent and let go. */
  get charge(): Charge {
    return this.#charge;
  }

  /** From now on the body is kept for others too, who may outlive this client. */
  handOver(): Charge {
    const charge = this.#charge;
    this.#charge = noCharge;
    return charge;
  }

  onBodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }

  onSettled(): void {
    this.#charge.end();
    this.leftover?.discard?.();
  }
}
