import { setTimeout as delay } from "node:timers/promises";
import { RuntimeUnavailable } from "../runtime-unavailable.ts";
import { LineCutter } from "../logs/log-lines.ts";
import { DaemonRefusal, type Daemon } from "./daemon.ts";
import type { Inspected } from "./inspected.ts";
import { PidWatch } from "./pid-watch.ts";
import { labelFilter, labelIn } from "./label.ts";
import { parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { errorMessage } from "../../lib/error-code.ts";

const firstRetryMs = 50;
const slowestRetryMs = 1000;
const inspectAgainMs = 1000;
/** Other events (exec, health checks, top) change no observed fact. */
const changes = new Set([
  "create",
  "start",
  "die",
  "oom",
  "pause",
  "unpause",
  "stop",
  "kill",
  "destroy",
  // Podman's name for it.
  "remove",
  "update",
]);

/**
 * Our containers as the daemon reports them: one list when it answers, then its events; after a gap, the list again.
 *
 *   connect ─▶ listen for events ─▶ list, inspect all ─▶ up ─▶ event: inspect that one
 *      ▲                                                           │
 *      └── wait ◀── down: nothing is known ◀── the stream ends ────┘
 */
export class ContainerView {
  readonly #daemon: Daemon;
  readonly #instance: string;
  readonly #onSlot: (slot: string) => void;
  readonly #onAnswering: () => void;
  readonly #containers = new Map<string, Inspected>();
  /** At most one inspection of a container at a time, and one more after an event meanwhile. */
  readonly #inspections = new Map<string, { running: Promise<void>; isStale: boolean }>();
  /** Containers to inspect again, since the daemon did not answer. */
  readonly #again = new Set<string>();
  readonly #closing = new AbortController();
  readonly #loop: Promise<void>;
  readonly #firstTry = Promise.withResolvers<void>();
  #down: RuntimeUnavailable | undefined;
  #isListed = false;
  #pidWatch: PidWatch | undefined;

  /** `onAnswering` is called whenever the daemon starts or stops to answer. */
  constructor(options: { daemon: Daemon; instance: string; onSlot: (slot: string) => void; onAnswering: () => void }) {
    this.#daemon = options.daemon;
    this.#instance = options.instance;
    this.#onSlot = options.onSlot;
    this.#onAnswering = options.onAnswering;
    this.#down = new RuntimeUnavailable("the Docker daemon has not been queried yet");
    this.#loop = this.#follow();
  }

  /** Resolves once the daemon has answered or failed for the first time. */
  async tried(): Promise<void> {
    await this.#firstTry.promise;
  }

  get isUp(): boolean {
    return this.#down === undefined;
  }

  /** Throws RuntimeUnavailable while the daemon does not answer. */
  all(): readonly Inspected[] {
    if (this.#down !== undefined) throw this.#down;
    return [...this.#containers.values()];
  }

  /** The state at the daemon's last answer; undefined when it never answered. */
  lastKnown(): readonly Inspected[] | undefined {
    return this.#isListed ? [...this.#containers.values()] : undefined;
  }

  /** As it was inspected last; undefined: it is gone, or not ours. */
  get(id: string): Inspected | undefined {
    return this.#containers.get(id);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#loop;
    this.#pidWatch?.[Symbol.dispose]();
    // The last inspections may fail: the caller has more to close.
    await Promise.allSettled([...this.#inspections.values()].map(({ running }) => running));
  }

  /** Lists and inspects everything again. Throws RuntimeUnavailable. */
  async relist(): Promise<void> {
    const listed = await this.#list();
    // Also containers that are not listed: one created since is not gone.
    const ids = new Set([...this.#containers.keys(), ...listed.map(({ Id: id }) => id)]);
    await Promise.all([...ids].map((id) => this.refresh(id).catch(unlessRefused)));
  }

  async #list(): Promise<readonly { readonly Id: string }[]> {
    const filters = { label: labelFilter(this.#instance) };
    try {
      return await this.#daemon.call((api) => api.listContainers({ all: true, filters }), "brief");
    } catch (error) {
      if (!(error instanceof DaemonRefusal)) throw error;
      throw new RuntimeUnavailable(`the daemon at ${this.#daemon.path} cannot list: ${error.message}`, {
        cause: error,
      });
    }
  }

  /** Inspects one container, and notifies. */
  async refresh(id: string): Promise<void> {
    const inspection = this.#inspections.get(id);
    if (inspection !== undefined) {
      inspection.isStale = true;
      return await inspection.running;
    }
    const fresh = { running: Promise.resolve(), isStale: false };
    this.#inspections.set(id, fresh);
    fresh.running = this.#inspect(id, fresh);
    await fresh.running;
  }

  forget(id: string): void {
    const known = this.#containers.get(id);
    this.#containers.delete(id);
    if (known !== undefined) this.#onSlot(known.label.slot);
  }

  async #inspect(id: string, inspection: { isStale: boolean }): Promise<void> {
    try {
      do {
        inspection.isStale = false;
        const info = await this.#daemon.find((api) => api.getContainer(id).inspect(), "brief");
        const label = info === undefined ? undefined : labelIn(info.Config.Labels, this.#instance);
        if (info === undefined || label === undefined) this.forget(id);
        else {
          this.#containers.set(id, { id, label, info });
          this.#onSlot(label.slot);
        }
        // oxlint-disable-next-line typescript/no-unnecessary-condition -- an event may have set it meanwhile
      } while (inspection.isStale);
    } finally {
      // In the same step as the last test: an event either prolongs this inspection or starts another.
      this.#inspections.delete(id);
    }
  }

  async #follow(): Promise<void> {
    const { signal } = this.#closing;
    let waitMs = firstRetryMs;
    while (!signal.aborted) {
      const beganMs = performance.now();
      try {
        // For this attempt alone: where the list fails, the stream of events must not stay open beside the next one.
        const trying = new AbortController();
        try {
          await this.#listen(AbortSignal.any([signal, trying.signal]));
        } finally {
          trying.abort();
        }
        this.#markDown(new RuntimeUnavailable(`the Docker daemon at ${this.#daemon.path} ended the connection`));
      } catch (error) {
        if (signal.aborted) break;
        this.#markDown(
          error instanceof RuntimeUnavailable ? error : new RuntimeUnavailable(errorMessage(error), { cause: error }),
        );
      }
      this.#firstTry.resolve();
      // Not for every answer: a daemon that ends each stream at once would be listed twenty times a second.
      if (performance.now() - beganMs > slowestRetryMs) waitMs = firstRetryMs;
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
      waitMs = Math.min(slowestRetryMs, waitMs * 2);
    }
    this.#firstTry.resolve();
  }

  /** Resolves when the daemon ends the stream. */
  async #listen(signal: AbortSignal): Promise<void> {
    const filters = { type: ["container" as const], label: labelFilter(this.#instance) };
    const stream = await this.#daemon.stream((api, abortSignal) => api.getEvents({ filters, abortSignal }), signal);
    const cutter = new LineCutter();
    const ended = new Promise<void>((resolve) => {
      stream.once("end", resolve);
      stream.once("close", resolve);
      stream.on("error", () => resolve());
    });
    stream.on("data", (chunk: Buffer) => {
      for (const line of cutter.push(chunk)) this.#onEvent(line);
    });
    await this.relist();
    if (this.#pidWatch === undefined && (await this.#daemon.isPodman())) {
      this.#pidWatch = new PidWatch(
        () => this.#containers.values(),
        (id) => void this.refresh(id).catch(() => undefined),
      );
    }
    this.#down = undefined;
    this.#isListed = true;
    this.#firstTry.resolve();
    this.#notifyAll();
    this.#onAnswering();
    await ended;
  }

  #onEvent(line: string): void {
    const event = parsed(line);
    if (event === undefined) {
      // A line that cannot be parsed, since it is too long, was about some container.
      if (line !== "") void this.relist().catch(() => undefined);
      return;
    }
    if (!changes.has(event.action)) return;
    if (event.action === "destroy" || event.action === "remove") {
      this.forget(event.id);
      const inspection = this.#inspections.get(event.id);
      // The answer of the pending query may be from before the container's end.
      if (inspection !== undefined) inspection.isStale = true;
      return;
    }
    this.#refreshWithRetry(event.id);
  }

  /**
   * Without an answer, either the stream ends with the daemon, and the list follows, or nothing else would report the
   * change: it is inspected again. A refusal is an answer.
   */
  #refreshWithRetry(id: string): void {
    const { signal } = this.#closing;
    void this.refresh(id).catch(async (error: unknown) => {
      if (error instanceof DaemonRefusal || this.#again.has(id)) return;
      this.#again.add(id);
      await delay(inspectAgainMs, undefined, { signal, ref: false }).catch(() => undefined);
      this.#again.delete(id);
      if (this.isUp && !signal.aborted) this.#refreshWithRetry(id);
    });
  }

  #markDown(error: RuntimeUnavailable): void {
    if (this.#closing.signal.aborted) return;
    const wasUp = this.#down === undefined;
    this.#down = error;
    if (!wasUp) return;
    this.#notifyAll();
    this.#onAnswering();
  }

  #notifyAll(): void {
    for (const slot of new Set([...this.#containers.values()].map(({ label }) => label.slot))) this.#onSlot(slot);
  }
}

/** A container that the daemon cannot describe hides no other; an action on it gets the reason. */
function unlessRefused(error: unknown): void {
  if (!(error instanceof DaemonRefusal)) throw error;
}

function parsed(line: string): { readonly action: string; readonly id: string } | undefined {
  const event = parseJson(line);
  if (!isRecord(event)) return undefined;
  const { Action: action, Actor: actor } = event;
  const id = isRecord(actor) ? actor["ID"] : undefined;
  return typeof action === "string" && typeof id === "string" ? { action, id } : undefined;
}
