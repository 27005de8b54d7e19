import type { ApiError } from "../../api/errors.ts";
import type { Admission, WaitPlace } from "../slots/admission.ts";
import type { WaitQueue, Waiter } from "../slots/wait-queue.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { Prompt } from "../slots/prefix-hashes.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { noCharge, type Charge } from "../slots/charge.ts";
import { toApiError } from "../http/answer.ts";
import type { Call } from "./call.ts";
import type { BackendCallOwner, CallGroup, EnginePart } from "./backend-call-options.ts";
import type { BackendCall } from "./backend-call.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { AnswerSink } from "../relay/answer.ts";
import { SharedAnswer } from "../relay/shared-answer.ts";
import type { HeldClient } from "./stream-hold.ts";

export interface SharedStreamsDependencies {
  readonly admission: Admission;
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "waited" | "joined">;
}

/** Creates the backend call of a stream without waiting clients. */
type StartCall = (sink: AnswerSink, owner: BackendCallOwner) => BackendCall;

/** Streams from slots that are not loaded: identical ones become one backend call (CONTRACT "Cold slots"). */
export class SharedStreams {
  readonly #control: SharedStreamsDependencies;
  /** By their key; some may have begun already. */
  readonly #open = new Map<string, SharedStream>();
  readonly #tally = { readers: 0 };

  constructor(control: SharedStreamsDependencies) {
    this.#control = control;
  }

  /** Clients of streams that others may share, until each has the whole stream. */
  get readers(): number {
    return this.#tally.readers;
  }

  /** The call gets the stream of that `key`; the first call starts it. */
  join(key: string, waitQueue: WaitQueue, call: Call, startCall: StartCall): void {
    // Before the waiting clients are read: this may admit or refuse them.
    this.#control.admission.recheck(waitQueue);
    const open = this.#open.get(key);
    const stream = open?.isJoinable === true ? open : this.#begin(key, waitQueue, startCall);
    stream.join(call);
  }

  #begin(key: string, waitQueue: WaitQueue, startCall: StartCall): SharedStream {
    const onSettled = (): void => {
      if (this.#open.get(key) === stream) this.#open.delete(key);
    };
    const stream: SharedStream = new SharedStream(this.#control, {
      waitQueue,
      tally: this.#tally,
      startCall,
      onSettled,
    });
    this.#open.set(key, stream);
    return stream;
  }
}

interface SharedStreamOptions {
  readonly waitQueue: WaitQueue;
  readonly tally: { readers: number };
  readonly startCall: StartCall;
  readonly onSettled: () => void;
}

/**
 * One backend call for several clients. Each waits in its own client's queue from its arrival, so that it does not wait
 * behind another client's requests, and for its own time; the first turn of any counts for all.
 */
class SharedStream implements BackendCallOwner, CallGroup {
  readonly control: SharedStreamsDependencies;
  readonly waitQueue: WaitQueue;
  readonly backendCall: BackendCall;
  readonly #answer: SharedAnswer;
  readonly #subscribers = new Set<Subscriber>();
  readonly #onSettled: () => void;
  /** The charge of the body to send: the first client's. */
  #charge: Charge = noCharge;

  constructor(control: SharedStreamsDependencies, { waitQueue, tally, startCall, onSettled }: SharedStreamOptions) {
    this.control = control;
    this.waitQueue = waitQueue;
    this.#onSettled = onSettled;
    this.#answer = new SharedAnswer({ budget: control.budget, tally, onDeserted: () => this.backendCall.abandon() });
    this.backendCall = startCall(this.#answer, this);
  }

  get group(): CallGroup {
    return this;
  }

  get isJoinable(): boolean {
    return this.#answer.isJoinable;
  }

  join(call: Call): void {
    const subscriber = new Subscriber(this, call);
    const isFirst = this.#subscribers.size === 0;
    this.#subscribers.add(subscriber);
    this.#answer.join(call.answer);
    call.work = subscriber;
    const charge = call.handOver();
    if (isFirst) this.#charge = charge;
    else {
      charge.end();
      this.control.metrics.joined(this.waitQueue.slot);
    }
    if (isFirst) this.backendCall.start();
    else if (this.backendCall.isQueued) this.#arrive(subscriber);
    call.holdFor(subscriber);
  }

  /** Removes a subscriber whose client has disconnected; the stream ends with its last subscriber. */
  leave(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber);
    subscriber.leaveQueue();
    if (this.#answer.leave(subscriber.call.answer) === 0) this.backendCall.abandon();
  }

  /** A waiting member is refused. */
  refuse(subscriber: Subscriber, failure: ApiError): void {
    if (!this.#dismiss(subscriber, failure)) this.backendCall.onRefused(failure);
  }

  enter(): BackendLease | undefined {
    // Once: with some members in the queue already, it could admit them.
    this.control.admission.recheck(this.waitQueue);
    for (const subscriber of this.#subscribers) {
      const lease = this.#arrive(subscriber);
      if (lease !== undefined) return lease;
    }
    return undefined;
  }

  leaveQueue(): void {
    for (const subscriber of this.#subscribers) subscriber.leaveQueue();
  }

  onAdmitted(lease: BackendLease): void {
    for (const subscriber of this.#subscribers) subscriber.endWait();
    this.backendCall.onAdmitted(lease);
  }

  onFirstByte(): void {
    for (const { call } of this.#subscribers) call.onFirstByte();
  }

  onFirstToken(): void {
    for (const { call } of this.#subscribers) call.onFirstToken();
  }

  /** The wait of the call itself: each member has its own. */
  onWaited(): void {}

  onEngineDone(part: EnginePart): void {
    for (const { call } of this.#subscribers) call.onEngineDone(part);
  }

  onBodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }

  onSettled(): void {
    this.#charge.end();
    this.#onSettled();
  }

  onDelayed(): void {
    for (const subscriber of this.#subscribers) subscriber.call.holdFor(subscriber);
  }

  #arrive(subscriber: Subscriber): BackendLease | undefined {
    try {
      return subscriber.arrive();
    } catch (error) {
      const failure = toApiError(error);
      if (!this.#dismiss(subscriber, failure)) throw failure;
      return undefined;
    }
  }

  /** Refuses one member alone. False for the last: its failure is that of the backend call, which reports it. */
  #dismiss(subscriber: Subscriber, failure: ApiError): boolean {
    subscriber.endWait();
    if (this.#subscribers.size === 1) return false;
    this.#subscribers.delete(subscriber);
    this.#answer.dismiss(subscriber.call.answer, failure);
    return true;
  }
}

/** One member of a shared stream. */
class Subscriber implements Waiter, HeldClient {
  readonly group: SharedStream;
  readonly call: Call;
  /** Since when it waits, by the steady clock. */
  #since: number | undefined;

  constructor(group: SharedStream, call: Call) {
    this.group = group;
    this.call = call;
  }

  get client(): string {
    return this.call.principal.client;
  }

  get hasBegun(): boolean {
    return this.call.answer.hasBegun;
  }

  get prompt(): Prompt | undefined {
    return this.group.backendCall.prompt;
  }

  get isWaiting(): boolean {
    return this.group.backendCall.isWaiting;
  }

  get place(): WaitPlace {
    const { control, waitQueue } = this.group;
    return control.admission.place(waitQueue, this);
  }

  /** By the last known state of its slot: a lease when it is admitted at once. Throws ApiError when refused. */
  arrive(): BackendLease | undefined {
    const { control, waitQueue } = this.group;
    const lease = control.admission.arrive(waitQueue, this);
    if (lease === undefined) this.#since = steadyNow();
    return lease;
  }

  onAdmitted(lease: BackendLease): void {
    this.group.onAdmitted(lease);
  }

  onRefused(failure: ApiError): void {
    this.group.refuse(this, failure);
  }

  abandon(): void {
    this.group.leave(this);
  }

  leaveQueue(): void {
    this.group.waitQueue.queue.leave(this);
    this.endWait();
  }

  /** Ends the call's time in the wait queue. */
  endWait(): void {
    if (this.#since === undefined) return;
    const { control, waitQueue } = this.group;
    const now = steadyNow();
    const waitMs = now - this.#since;
    const holdMs = waitQueue.queue.heldMs(waitMs, now);
    control.metrics.waited(waitQueue.slot, { waitMs, holdMs });
    this.call.onWaited(waitMs, holdMs);
    this.#since = undefined;
  }
}
