import { hash } from "node:crypto";
import { toApiError } from "../http/answer.ts";
import { onAbort } from "../../lib/on-abort.ts";
import { SharedAnswer } from "../relay/shared-answer.ts";
import { dropBody } from "../routing/prepare.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { BufferBudget, Charge } from "../slots/budget.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { RequestTrace } from "../telemetry/trace-context.ts";
import { clientGone, type Call } from "./call.ts";
import { QueuedCall } from "./queued-call.ts";
import type { Recipient, Turn } from "./recipient.ts";
import { refuse, relay } from "./relay.ts";
import { send } from "./send.ts";
import { SlotDispatch, type SlotEntry, type SlotDispatchOptions } from "./slot-dispatch.ts";

export interface ShareOptions extends SlotDispatchOptions {
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "waited" | "joined" | "ofSlot">;
}

/** Streams from slots that are not loaded: identical ones are sent once (CONTRACT "Cold slots"). */
export class SharedStreams {
  readonly #options: ShareOptions;
  /** The streams that others may join, by what makes them identical; some may have begun already. */
  readonly #open = new Map<string, SharedStream>();
  readonly #tally = { readers: 0 };

  constructor(options: ShareOptions) {
    this.#options = options;
  }

  /** Clients of streams that others may share, until each has the whole stream. */
  get readers(): number {
    return this.#tally.readers;
  }

  /**
   * Lets the call read the stream that an identical request has begun, or begins one. Resolves once the call has the whole
   * stream, and rejects with the reason for which the call is cancelled. Undefined: its request is sent for it alone.
   */
  join(entry: SlotEntry, call: Call): Promise<void> | undefined {
    const key = keyOf(entry, call);
    return key === undefined ? undefined : this.#join(key, entry, call);
  }

  async #join(key: string, entry: SlotEntry, call: Call): Promise<void> {
    const { prepared, waitQueue } = entry;
    // First: this may admit or refuse clients that wait.
    this.#options.admission.recheck(waitQueue);
    let stream = this.#open.get(key);
    const isFirst = stream?.isJoinable !== true;
    if (stream === undefined || isFirst) {
      stream = new SharedStream(this.#options, entry, call, this.#tally);
      this.#open.set(key, stream);
    } else {
      this.#options.metrics.joined(waitQueue.slot);
      // The first client's body is sent.
      dropBody(prepared);
    }
    const own = stream;
    own.join(call);
    if (isFirst)
      void own.run().finally(() => {
        if (this.#open.get(key) === own) this.#open.delete(key);
      });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    void call.closed.then(resolve);
    using _ = onAbort(call.signal, reject);
    try {
      await promise;
    } finally {
      own.leave(call);
    }
  }
}

/** The key of identical streams from a slot that is not loaded; undefined: the request is sent for its client alone. */
function keyOf({ waitQueue, prepared }: SlotEntry, call: Call): string | undefined {
  const { slot, role, ref, queue } = waitQueue;
  if (queue.gate === "open") return undefined;
  const { request } = prepared;
  const { isStream, body, owner } = request;
  if (!isStream || body === undefined) return undefined;
  return JSON.stringify([call.route.path, slot, role, ref ?? "", call.principal.scope, owner, hash("sha256", body)]);
}

/**
 * One stream for several clients. Each client keeps its own place and deadline from its arrival; the stream is sent once any of
 * them is admitted.
 */
class SharedStream implements Recipient {
  readonly #answer: SharedAnswer;
  readonly requestId: string;
  readonly #options: ShareOptions;
  readonly #entry: SlotEntry;
  readonly #deserted = new AbortController();
  /** The members, each with its request in the queue while the stream waits. */
  readonly #members = new Map<Call, QueuedCall<BackendLease> | undefined>();
  /** The charge of the body to send: the first client's. */
  readonly #charge: Charge;
  #turn: SharedTurn | undefined;

  constructor(options: ShareOptions, entry: SlotEntry, first: Call, tally: { readers: number }) {
    this.#options = options;
    this.#entry = entry;
    this.requestId = first.requestId;
    this.#charge = first.handOver();
    this.#answer = new SharedAnswer({
      budget: options.budget,
      tally,
      onDeserted: () => this.#deserted.abort(clientGone),
    });
  }

  get clients(): Iterable<Call> {
    return this.#members.keys();
  }

  /** The first member's: one request to an engine has one trace. */
  get trace(): RequestTrace | undefined {
    const [first] = this.#members.keys();
    return first?.trace;
  }

  get signal(): AbortSignal {
    return this.#deserted.signal;
  }

  get isJoinable(): boolean {
    return this.#answer.isJoinable && !this.signal.aborted;
  }

  join(call: Call): void {
    call.charge.end();
    this.#members.set(call, undefined);
    this.#answer.join(call.answer);
    const turn = this.#turn;
    if (turn === undefined) return;
    const lease = this.#enqueue(call, turn);
    if (lease !== undefined) turn.admit(lease);
  }

  /** The stream ends with its last member. */
  leave(call: Call): void {
    const queued = this.#members.get(call);
    if (!this.#members.delete(call)) return;
    queued?.[Symbol.dispose]();
    if (this.#answer.leave(call.answer) === 0) this.#deserted.abort(clientGone);
  }

  /** Never rejects: each member's answer ends with the failure. */
  async run(): Promise<void> {
    try {
      using dispatch = new SlotDispatch(this.#options, this.#entry, this);
      await dispatch.enter();
      using answer = await send(dispatch, this, this.#options);
      await relay(answer, dispatch, this.#answer, this.#options.budget);
    } catch (error) {
      if (error !== clientGone) refuse(this.#answer, error);
    } finally {
      this.#charge.end();
    }
  }

  arrive(waitQueue: WaitQueue, prompt: Prompt | undefined): BackendLease | Turn<BackendLease> {
    // Before any member is queued: a recheck later could admit some.
    this.#options.admission.recheck(waitQueue);
    const turn = new SharedTurn(prompt, () => this.#stopWaiting());
    for (const call of this.#members.keys()) {
      const lease = this.#enqueue(call, turn);
      if (lease === undefined) continue;
      this.#stopWaiting();
      return lease;
    }
    this.#turn = turn;
    return turn;
  }

  bodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }

  /** A lease where the member is admitted at once. Throws ApiError where it is refused and is the only one left. */
  #enqueue(call: Call, turn: SharedTurn): BackendLease | undefined {
    const { admission, metrics } = this.#options;
    const { waitQueue } = this.#entry;
    const queued = new QueuedCall(call, waitQueue, { metrics, prompt: turn.prompt, group: this });
    try {
      const lease = admission.arrive(waitQueue, queued);
      if (lease !== undefined) return lease;
    } catch (error) {
      if (!this.#dismiss(call, error)) throw error;
      return undefined;
    }
    this.#members.set(
      call,
      queued.wait(() => admission.waitReport(waitQueue, queued)),
    );
    queued.lease.then(
      (lease) => turn.admit(lease),
      (failure: unknown) => {
        if (!this.#dismiss(call, failure)) turn.refuse(failure);
      },
    );
    return undefined;
  }

  /** Refuses one member alone. False for the only one left: its failure is that of the stream. */
  #dismiss(call: Call, failure: unknown): boolean {
    this.#members.get(call)?.[Symbol.dispose]();
    if (this.#members.size === 1) return false;
    this.#members.delete(call);
    this.#answer.dismiss(call.answer, toApiError(failure));
    return true;
  }

  #stopWaiting(): void {
    this.#turn = undefined;
    for (const [call, queued] of this.#members) {
      queued?.[Symbol.dispose]();
      this.#members.set(call, undefined);
    }
  }
}

/** The first turn of any member. */
class SharedTurn implements Turn<BackendLease> {
  readonly prompt: Prompt | undefined;
  readonly #lease = Promise.withResolvers<BackendLease>();
  readonly #onEnd: () => void;
  #isOver = false;

  constructor(prompt: Prompt | undefined, onEnd: () => void) {
    this.prompt = prompt;
    this.#onEnd = onEnd;
  }

  get lease(): Promise<BackendLease> {
    return this.#lease.promise;
  }

  /** Another member may have had its turn already. */
  admit(lease: BackendLease): void {
    if (this.#isOver) lease.release();
    this.#isOver = true;
    this.#lease.resolve(lease);
  }

  refuse(reason: unknown): void {
    this.#isOver = true;
    this.#lease.reject(reason);
  }

  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#onEnd();
  }
}
