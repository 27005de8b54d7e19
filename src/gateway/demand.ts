import type { Demand } from "../api/status.ts";
import { bootId } from "../lib/boot-id.ts";
import { Outage } from "../lib/outage.ts";
import { everySecond } from "../lib/pulse.ts";
import { wallTimeOf } from "../lib/steady-clock.ts";
import type { DemandWriter } from "../store/demand.ts";
import type { ResolutionIndex } from "./index.ts";
import type { Traffic } from "./traffic.ts";

export interface DemandPublisherOptions {
  readonly gateway: string;
  readonly writer: DemandWriter;
  readonly traffic: Traffic;
  readonly index: () => ResolutionIndex;
  /** Told as an outage is. */
  readonly onFailing: (error: unknown) => void;
  readonly onEnd: () => void;
}

/**
 * Publishes what this gateway holds: once a second as a heartbeat, and at once when the operator waits for it (a slot
 * that is unloading, or one that is cold and was just asked for).
 */
export class DemandPublisher implements AsyncDisposable {
  readonly #options: DemandPublisherOptions;
  readonly #outage: Outage;
  readonly #beats: Disposable;
  #writing: Promise<void> | undefined;
  #isDirty = false;

  constructor(options: DemandPublisherOptions) {
    this.#options = options;
    this.#outage = new Outage(options);
    this.#beats = everySecond(() => this.publish());
    this.publish();
  }

  /** Writes soon; calls while a write is under way become one more write. */
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
        this.#outage.succeeded();
      } catch (error) {
        this.#outage.failed(error);
        return;
      }
    }
  }

  #demand(): Demand {
    const { gateway, traffic, index } = this.#options;
    const slots: Demand["slots"] = {};
    for (const { name, revision } of index().slots.values()) {
      const { held, inFlight, lastRequestAt, lastByteAt } = traffic.of(name);
      slots[name] = {
        held,
        inFlight,
        seenRevision: revision,
        ...(lastRequestAt === 0 ? {} : { lastRequestAt: wallTimeOf(lastRequestAt).toISOString() }),
        ...(lastByteAt === 0 ? {} : { lastByteAt: wallTimeOf(lastByteAt).toISOString() }),
      };
    }
    const heartbeat = new Date().toISOString();
    return { schema: 1, gateway, pid: process.pid, bootId: bootId(), heartbeat, sendsBearers: true, slots };
  }
}
