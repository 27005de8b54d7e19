import type { Logger } from "pino";
import { diagnosticLine } from "../api/diagnostic.ts";
import { duration } from "../api/duration.ts";
import type { ModelRecord } from "../api/model.ts";
import { builtinSlots } from "../api/names.ts";
import type { ResourceStatus } from "../api/resource-status.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { ModelRegistry } from "../models/registry.ts";
import { memoryReason } from "./facts.ts";
import { Complaints } from "./complaints.ts";
import { IllegalMoves } from "./illegal-moves.ts";
import type { OperatorMetrics } from "./metrics.ts";
import { WorkQueue, type Done } from "./queue.ts";
import { reconcile } from "./reconcile.ts";
import { RegistrySync } from "./registry-sync.ts";
import type { World } from "./world.ts";

const registryKey = "Registry/all";
const resyncMs = 60_000;

/**
 * Turns every hint (a file saved, a process ended, demand, a model dropped in) into a key, and works the keys off.
 *
 *   source ─┐
 *   runtime ├─▶ queue ─▶ reconcile(slot) ─▶ publish
 *   demand ─┤      └───▶ registry: models changed ─▶ the slots that name them
 *   requests┘
 */
export class Controller implements AsyncDisposable {
  readonly #world: World;
  readonly #registry: ModelRegistry;
  readonly #log: Logger;
  readonly #metrics: OperatorMetrics;
  readonly #isPaused: boolean;
  readonly #queue: WorkQueue;
  readonly #stack = new AsyncDisposableStack();
  readonly #closing = new AbortController();
  readonly #complaints: Complaints;
  readonly #illegalMoves: IllegalMoves;
  readonly #sync: RegistrySync;

  constructor(options: {
    world: World;
    registry: ModelRegistry;
    /** Shared with `world.models`; this controller is its only writer. */
    models: { current: ReadonlyMap<string, ModelRecord> };
    /** How models and upstreams were when an earlier operator published them last. */
    resources?: readonly ResourceStatus[];
    log: Logger;
    metrics: (queue: () => WorkQueue) => OperatorMetrics;
    isPaused: boolean;
  }) {
    this.#world = options.world;
    this.#registry = options.registry;
    this.#log = options.log;
    this.#complaints = new Complaints(options.log);
    this.#illegalMoves = new IllegalMoves(options.log, (move) => this.#metrics.movedIllegally(move));
    this.#sync = new RegistrySync({
      ...options,
      resources: options.resources ?? [],
      complaints: this.#complaints,
      enqueue: (slot) => this.#enqueue(slot),
    });
    this.#isPaused = options.isPaused;
    this.#queue = new WorkQueue({
      clock: options.world.clock,
      backoff: options.world.backoff,
      work: (key) => this.#work(key),
      onError: (key, error, retryMs) =>
        this.#log.error(
          { key, err: error },
          `${key}: reconcile failed, next try in ${duration(Math.ceil(retryMs / 1000))}`,
        ),
    });
    this.#metrics = options.metrics(() => this.#queue);
  }

  get metrics(): OperatorMetrics {
    return this.#metrics;
  }

  get queue(): WorkQueue {
    return this.#queue;
  }

  /**
   * Reads the world once, then follows it. Resolves when every slot has been reconciled once, or disposal has begun.
   */
  async start(): Promise<void> {
    const { source, demand, requests, runtime, health, memory, containers } = this.#world;
    const seeded = this.#seedConflicts();
    await this.#sync.sync();
    const slots = await this.#allSlots();
    if (this.#closing.signal.aborted) return;
    this.#stack.use(
      source.watch((kind, name) => {
        if (kind === "Slot") this.#slotChanged(name);
        else this.#queue.add(registryKey);
      }),
    );
    this.#stack.use(this.#registry.watch(() => this.#queue.add(registryKey)));
    this.#stack.use(demand.watch((names) => names.forEach((name) => this.#enqueue(name))));
    this.#stack.use(requests.watch((name) => this.#enqueue(name)));
    const watching = await runtime.watch((name) => this.#enqueue(name));
    if (this.#closing.signal.aborted) {
      watching[Symbol.dispose]();
      return;
    }
    this.#stack.use(watching);
    this.#stack.use(health.watch((name) => this.#enqueue(name)));
    this.#stack.use(memory.watch((name) => this.#enqueue(name)));
    // Where a slot can run may be another now: one that could not, waits for nothing else.
    this.#stack.use(containers.watch(() => source.list("Slot").forEach(({ name }) => this.#enqueue(name))));
    // Whatever changed before there was a watch told nobody.
    const declared = source.list("Slot").map(({ name }) => name);
    for (const name of new Set([...seeded, ...slots, ...declared])) this.#slotChanged(name);
    this.#queue.add(registryKey);
    // Not until nothing is left to do: with many slots that load, or one whose runtime hangs, that may never be.
    await this.#queue.passed();
    if (this.#closing.signal.aborted) return;
    const timer = setInterval(
      () => void this.resync().catch((error: unknown) => this.#log.error({ err: error }, "resync failed")),
      resyncMs,
    );
    timer.unref();
    this.#stack.defer(() => clearInterval(timer));
  }

  /** Has what somebody has deleted of the published state written again. */
  restore(): void {
    const { written, published } = this.#world;
    for (const name of written.missing(published.keys())) this.#enqueue(name);
    if (!this.#sync.isThere()) this.#queue.add(registryKey);
  }

  /** Enqueues everything, in case an event was lost. */
  async resync(): Promise<void> {
    await this.#world.source.resync();
    this.#queue.add(registryKey);
    for (const name of await this.#allSlots()) this.#enqueue(name);
  }

  /** Acts no more, not even on what is under way: an engine that is being stopped is left to whoever comes next. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#world.health[Symbol.dispose]();
    await this.#stack.disposeAsync();
    await this.#queue.stop();
  }

  #enqueue(slot: string): void {
    this.#queue.add(`Slot/${slot}`);
  }

  /** Declared, built in, published by an earlier operator, or running without any of these. */
  async #allSlots(): Promise<Set<string>> {
    const { source, published, runtime } = this.#world;
    return new Set([
      ...builtinSlots,
      ...source.list("Slot").map(({ name }) => name),
      ...published.keys(),
      ...(await runtime.list()),
    ]);
  }

  /**
   * Who held a port or alias before the operator was restarted still holds it; the rest by age, then name. Returns the
   * slots that claim any.
   */
  #seedConflicts(): readonly string[] {
    const { source, published, conflicts } = this.#world;
    const rank = (name: string): number => {
      const status = published.get(name)?.status;
      return status !== undefined && status.state !== "error" ? 0 : 1;
    };
    const slots = source
      .list("Slot")
      .toSorted(
        (a, b) => rank(a.name) - rank(b.name) || a.since.getTime() - b.since.getTime() || a.name.localeCompare(b.name),
      );
    for (const { name, spec } of slots) conflicts.update(name, spec);
    return slots.map(({ name }) => name);
  }

  #slotChanged(name: string): void {
    const desired = this.#world.source.get("Slot", name);
    for (const other of this.#world.conflicts.update(name, desired?.spec)) this.#enqueue(other);
    this.#enqueue(name);
  }

  async #work(key: string): Promise<Done> {
    const began = performance.now();
    const kind = key === registryKey ? "Registry" : "Slot";
    try {
      const done = kind === "Registry" ? await this.#sync.sync() : await this.#reconcileSlot(key.slice("Slot/".length));
      const outcome = done.requeueMs === undefined ? "success" : "requeue";
      this.#metrics.reconciled(kind, outcome, (performance.now() - began) / 1000);
      return done;
    } catch (error) {
      if (this.#closing.signal.aborted) return {};
      this.#metrics.reconciled(kind, "error", (performance.now() - began) / 1000);
      throw error;
    }
  }

  async #reconcileSlot(name: string): Promise<Done> {
    const desired = this.#world.source.get("Slot", name);
    // One that was never valid says so in its state, which is logged.
    const diagnostics = desired?.spec === undefined ? [] : desired.diagnostics;
    this.#complaints.tell(`Slot/${name}`, diagnostics.map(diagnosticLine));
    const last = this.#world.published.get(name);
    const done = await reconcile(this.#world, name, {
      log: this.#log,
      isPaused: this.#isPaused,
      signal: this.#closing.signal,
      illegalMoves: this.#illegalMoves,
      onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => {
        this.#metrics.published(after, before);
        this.#noteMemory(name, after);
        // It has all that it takes for its weights by now.
        if (after.status.state === "ready" && before?.status.state !== "ready") void this.#world.memory.measure();
      },
    });
    if (last !== undefined && !this.#world.published.has(name)) {
      this.#metrics.deleted(name, last);
      this.#illegalMoves.forget(name);
      this.#noteMemory(name, undefined);
    }
    return done;
  }

  /** Who lacked memory is tried again once another slot has given some back. */
  #noteMemory(name: string, after: PublishedSlot | undefined): void {
    const { freed, clock, published } = this.#world;
    if (!freed.note(name, after, clock.now())) return;
    for (const [other, { status }] of published) {
      if (other !== name && status.lastError?.reason === memoryReason && status.failures > 0) this.#enqueue(other);
    }
  }
}
