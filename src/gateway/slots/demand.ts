import { FailureLog } from "../../lib/failure-log.ts";
import { everySecond } from "../../lib/pulse.ts";
import { wallTimeOf } from "../../lib/steady-clock.ts";
import type { DemandReport, DemandWriter } from "../../store/store.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import type { Admission } from "./admission.ts";
import type { Backend, ContextFigure } from "./backend.ts";
import type { WaitQueue } from "./wait-queue.ts";
import type { Traffic } from "./traffic.ts";

export interface DemandPublisherOptions {
  readonly writer: DemandWriter;
  readonly traffic: Traffic;
  readonly admission: Pick<Admission, "backends" | "queuesByRef">;
  readonly index: () => ResolutionIndex;
  /** For a deduplicated log of the failure. */
  readonly onFailing: (error: unknown) => void;
  readonly onEnd: () => void;
}

/**
 * Publishes this gateway's demand: once a second as a heartbeat, and at once when the operator waits for it (a slot
 * that is unloading, or a cold one with a new request).
 */
export class DemandPublisher implements AsyncDisposable {
  readonly #options: DemandPublisherOptions;
  readonly #failureLog: FailureLog;
  readonly #beats: Disposable;
  #writing: Promise<void> | undefined;
  #isDirty = false;

  constructor(options: DemandPublisherOptions) {
    this.#options = options;
    this.#failureLog = new FailureLog(options);
    this.#beats = everySecond(() => this.publish());
    this.publish();
  }

  /** Writes soon; calls during a write become one more write. */
  publish(): void {
    this.#isDirty = true;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#beats[Symbol.dispose]();
    this.#isDirty = false;
    await this.#writing;
    await this.#options.writer[Symbol.asyncDispose]();
  }

  async #write(): Promise<void> {
    while (this.#isDirty) {
      this.#isDirty = false;
      try {
        await this.#options.writer.write(this.#demand());
        this.#failureLog.succeeded();
      } catch (error) {
        this.#failureLog.failed(error);
        return;
      }
    }
  }

  #demand(): DemandReport {
    const { traffic, admission, index } = this.#options;
    const slots: DemandReport["slots"] = {};
    for (const { name, revision } of index().slots.values()) {
      const { held, inFlight, lastRequestAt, lastByteAt } = traffic.of(name);
      const backends = [...admission.backends(name)];
      const endpoints = backends.map(({ role, backend }) => ({
        role,
        ordinal: backend.endpoint.ordinal,
        inFlight: backend.inFlight + backend.unqueued,
        ...(backend.lastByteAt === 0 ? {} : { lastByteAt: wallTimeOf(backend.lastByteAt).toISOString() }),
      }));
      slots[name] = {
        held,
        inFlight,
        seenRevision: revision,
        endpoints,
        ...contextOf(backends),
        ...refsOf(admission.queuesByRef(name)),
        ...(lastRequestAt === 0 ? {} : { lastRequestAt: wallTimeOf(lastRequestAt).toISOString() }),
        ...(lastByteAt === 0 ? {} : { lastByteAt: wallTimeOf(lastByteAt).toISOString() }),
      };
    }
    return { slots };
  }
}

/** The context of the replica with the longest conversation in its cache. */
function contextOf(
  backends: readonly { readonly backend: Pick<Backend, "context"> }[],
): Pick<DemandReport["slots"][string], "context"> {
  let context: ContextFigure | undefined;
  for (const { backend } of backends) {
    const { figure } = backend.context;
    if (figure !== undefined && figure.tokens > (context?.tokens ?? 0)) context = figure;
  }
  return context === undefined ? {} : { context };
}

/** The requests that name each of a slot's models. */
function refsOf(queues: readonly WaitQueue[]): Pick<DemandReport["slots"][string], "refs"> {
  if (queues.length === 0) return {};
  const refs = queues.flatMap(({ ref, queue, backends }) => {
    let inFlight = 0;
    for (const backend of backends.all()) inFlight += backend.inFlight;
    const { oldest } = queue;
    const waiting = oldest === undefined ? {} : { waitingSince: wallTimeOf(oldest).toISOString() };
    return ref === undefined ? [] : [{ ref, held: queue.waiting, inFlight, ...waiting }];
  });
  return { refs };
}
