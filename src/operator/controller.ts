import type { Logger } from "pino";
import { diagnosticLine } from "../api/diagnostic.ts";
import { duration } from "../api/duration.ts";
import type { ModelRecord } from "../api/model.ts";
import { builtinSlots } from "../api/names.ts";
import type { ResourceStatus } from "../api/resource-status.ts";
import { completeSlot } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import type { ModelRegistry } from "../models/registry.ts";
import { memoryReason } from "./plan/facts.ts";
import { DeduplicatedLog } from "./report/deduplicated-log.ts";
import { GroupSync } from "./group-sync.ts";
import type { OperatorMetrics, reconciledKinds } from "./report/metrics.ts";
import { WorkQueue, type Done } from "./queue.ts";
import { reconcile } from "./reconcile.ts";
import { RegistrySync } from "./report/registry-sync.ts";
import { PullRequests } from "./pulls/pull-requests.ts";
import type { Dependencies } from "./dependencies.ts";

const registryKey = "Registry/all";
const groupPrefix = "Group/";
const resyncMs = 60_000;

type KeyKind = (typeof reconciledKinds)[number];

function kindOf(key: string): KeyKind {
  if (key === registryKey) return "Registry";
  if (key.startsWith(groupPrefix)) return "Group";
  return PullRequests.isKey(key) ? "Pull" : "Slot";
}

/**
 * Turns every hint (a file saved, a process ended, demand, a model added) into a key, and reconciles the keys.
 *
 *   source ─┐
 *   runtime ├─▶ queue ─▶ reconcile(slot) ─▶ publish
 *   demand ─┤      ├───▶ registry: models changed ─▶ the slots that name them
 *           │      └───▶ group: places granted or released ─▶ the slots that hold or want them
 *   requests┘
 */
export class Controller implements AsyncDisposable {
  readonly #dependencies: Dependencies;
  readonly #registry: ModelRegistry;
  readonly #log: Logger;
  readonly #isPaused: boolean;
  readonly #beat: () => Promise<void>;
  readonly #pullRequests: Pick<PullRequests, "watch" | "sync"> | undefined;
  readonly #stack = new AsyncDisposableStack();
  readonly #closing = new AbortController();
  readonly #problemLog: DeduplicatedLog;
  readonly #sync: RegistrySync;
  readonly #groups: GroupSync;
  readonly metrics: OperatorMetrics;
  readonly queue: WorkQueue;
  /** Without them every slot would seem to name an unknown model. */
  #areModelsKnown = false;

  constructor(options: {
    dependencies: Dependencies;
    registry: ModelRegistry;
    /** Shared with `dependencies.models`; this controller is its only writer. */
    models: { current: ReadonlyMap<string, ModelRecord> };
    /** Absent: nobody can ask for a pull. */
    pullRequests?: Pick<PullRequests, "watch" | "sync">;
    /** The conditions of models and upstreams that an earlier operator published last. */
    resources?: readonly ResourceStatus[];
    /** Publishes the operator's heartbeat out of turn. */
    beat: () => Promise<void>;
    log: Logger;
    metrics: (queue: () => WorkQueue) => OperatorMetrics;
    isPaused: boolean;
  }) {
    this.#dependencies = options.dependencies;
    this.#registry = options.registry;
    this.#log = options.log;
    this.#problemLog = new DeduplicatedLog(options.log);
    this.#sync = new RegistrySync({
      ...options,
      resources: options.resources ?? [],
      problemLog: this.#problemLog,
      enqueue: (slot) => this.#enqueue(slot),
    });
    this.#groups = new GroupSync({
      ...options,
      problemLog: this.#problemLog,
      metrics: () => this.metrics.groups,
      enqueue: (slot) => this.#enqueue(slot),
      enqueueGroup: (group) => this.queue.add(`${groupPrefix}${group}`),
      onNewProblems: () => this.queue.add(registryKey),
    });
    this.#isPaused = options.isPaused;
    this.#beat = options.beat;
    this.#pullRequests = options.pullRequests;
    this.queue = new WorkQueue({
      clock: options.dependencies.clock,
      backoff: options.dependencies.backoff,
      work: (key) => this.#work(key),
      onError: (key, error, retryMs) =>
        this.#log.error(
          { key, err: error },
          `${key}: reconcile failed, next try in ${duration(Math.ceil(retryMs / 1000))}`,
        ),
    });
    this.metrics = options.metrics(() => this.queue);
  }

  /**
   * Reads everything once, then follows the changes. Resolves when every slot has been reconciled once, or disposal has
   * begun.
   */
  async start(): Promise<void> {
    const { source, demand, requests, runtime, health, memory, machine } = this.#dependencies;
    const seeded = this.#seedConflicts();
    await this.#sync.sync();
    this.#areModelsKnown = true;
    const slots = await this.#allSlots();
    if (this.#closing.signal.aborted) return;
    this.#stack.use(
      source.watch((kind, name) => {
        if (kind === "Slot") this.#slotChanged(name);
        else this.queue.add(registryKey);
        if (kind === "SlotGroup") this.queue.add(`${groupPrefix}${name}`);
      }),
    );
    this.#stack.use(this.#registry.watch(() => this.queue.add(registryKey)));
    this.#stack.use(demand.watch((names) => names.forEach((name) => this.#enqueue(name))));
    this.#stack.use(requests.watch((name) => this.#enqueue(name)));
    this.#stack.use(this.#groups.watch());
    if (this.#pullRequests !== undefined) {
      const onKey = (key: string): void => this.queue.add(key);
      this.#stack.use(this.#pullRequests.watch(onKey, (slot) => this.#enqueue(slot)));
    }
    const watching = await runtime.watch((name) => this.#enqueue(name));
    if (this.#closing.signal.aborted) return watching[Symbol.dispose]();
    this.#stack.use(watching);
    this.#stack.use(health.watch((name) => this.#enqueue(name)));
    if (!this.#isPaused) this.#stack.use(memory.watch((name) => this.#enqueue(name)));
    // The placement of a slot may change now: a slot that could not run waits for no other event.
    const onMoved = (): void => source.list("Slot").forEach(({ name }) => this.queue.addResync(`Slot/${name}`));
    this.#stack.use(machine.watch(onMoved));
    this.#stack.use(runtime.watchAnswering(onMoved));
    // A change before the watch caused no notification.
    const declared = source.list("Slot").map(({ name }) => name);
    for (const name of new Set([...seeded, ...slots, ...declared])) this.#slotChanged(name);
    this.queue.add(registryKey);
    this.#groups.enqueueAll();
    // Not until the queue is empty: with many loading slots, or one whose runtime hangs, that may never be.
    await this.queue.passed();
    await this.#sweep();
    if (this.#closing.signal.aborted) return;
    const timer = setInterval(
      () => void this.resync().catch((error: unknown) => this.#log.error({ err: error }, "resync failed")),
      resyncMs,
    );
    timer.unref();
    this.#stack.defer(() => clearInterval(timer));
  }

  /** Has deleted files of the published state written again. Nothing before `start` has read the models. */
  restore(): void {
    if (!this.#areModelsKnown) return;
    const { written, published } = this.#dependencies;
    for (const name of written.noteDeleted(published.keys())) this.#enqueue(name);
    if (!this.#sync.isThere()) this.queue.add(registryKey);
  }

  /** Enqueues everything, known slots first, in case an event was lost. Nothing before `start`, which does so itself, has read the models. */
  async resync(): Promise<void> {
    if (!this.#areModelsKnown) return;
    const { source, published } = this.#dependencies;
    const known = new Set([...source.list("Slot").map(({ name }) => name), ...published.keys()]);
    for (const name of known) this.queue.addResync(`Slot/${name}`);
    this.queue.add(registryKey);
    this.#groups.enqueueAll();
    await source.resync();
    await this.#sweep();
    for (const name of await this.#allSlots()) if (!known.has(name)) this.queue.addResync(`Slot/${name}`);
  }

  /** Acts no more, not even in a running reconcile: an engine that is being stopped is left to the next operator. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#dependencies.health[Symbol.dispose]();
    await this.#stack.disposeAsync();
    await this.queue.stop();
  }

  /** Saved contexts by the specs in force: the manifest's, or the last published spec. */
  async #sweep(): Promise<void> {
    if (this.#isPaused || this.#closing.signal.aborted) return;
    const { source, published, contexts } = this.#dependencies;
    await contexts.sweep((slot) => {
      const known = published.get(slot);
      return source.get("Slot", slot)?.spec ?? (known && completeSlot(slot, known.spec));
    });
  }

  #enqueue(slot: string): void {
    this.queue.add(`Slot/${slot}`);
  }

  /** Declared, built in, published by an earlier operator, or running without any of these. */
  async #allSlots(): Promise<Set<string>> {
    const { source, published, runtime } = this.#dependencies;
    return new Set([
      ...builtinSlots,
      ...source.list("Slot").map(({ name }) => name),
      ...published.keys(),
      ...(await runtime.list()),
    ]);
  }

  /**
   * The holder of a port or alias before the restart of the operator still holds it; the others by age, then name.
   * Returns the slots that claim any.
   */
  #seedConflicts(): readonly string[] {
    const { source, published, conflicts } = this.#dependencies;
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
    const desired = this.#dependencies.source.get("Slot", name);
    for (const other of this.#dependencies.conflicts.update(name, desired?.spec)) this.#enqueue(other);
    this.#enqueue(name);
  }

  async #work(key: string): Promise<Done> {
    const began = performance.now();
    const kind = kindOf(key);
    try {
      const done = await this.#reconcile(kind, key);
      if (kind !== "Registry" && this.#sync.hasPullNews()) this.queue.add(registryKey);
      const outcome = done.requeueMs === undefined ? "success" : "requeue";
      this.metrics.reconciled(kind, outcome, (performance.now() - began) / 1000);
      return done;
    } catch (error) {
      if (this.#closing.signal.aborted) return {};
      this.metrics.reconciled(kind, "error", (performance.now() - began) / 1000);
      throw error;
    }
  }

  async #reconcile(kind: KeyKind, key: string): Promise<Done> {
    if (kind === "Registry") return await this.#sync.sync();
    if (kind === "Pull") return (await this.#pullRequests?.sync(key, () => this.#sync.sync())) ?? {};
    if (kind === "Slot") return await this.#reconcileSlot(key.slice("Slot/".length));
    return await this.#groups.reconcile(key.slice(groupPrefix.length));
  }

  async #reconcileSlot(name: string): Promise<Done> {
    const desired = this.#dependencies.source.get("Slot", name);
    // A manifest that was never valid shows in the slot's state, which is logged.
    const diagnostics = desired?.spec === undefined ? [] : desired.diagnostics;
    this.#problemLog.report(`Slot/${name}`, diagnostics.map(diagnosticLine));
    const last = this.#dependencies.published.get(name);
    const done = await reconcile(this.#dependencies, name, {
      log: this.#log,
      isPaused: this.#isPaused,
      signal: this.#closing.signal,
      onDeleting: this.#beat,
      onRepaired: (reason) => this.metrics.repaired(name, reason),
      onPublished: (after: PublishedSlot, before: PublishedSlot | undefined) => {
        this.metrics.published(after, before);
        this.#noteMemory(name, after);
        // The model's weights are in memory by now.
        if (!this.#isPaused && after.status.state === "ready" && before?.status.state !== "ready")
          void this.#dependencies.memory.measure();
      },
    });
    // The slot's place in its group may be free, or wanted; the group decides by the present state.
    for (const group of new Set([desired?.spec?.group, last?.spec.group]))
      if (group !== undefined) this.queue.add(`${groupPrefix}${group}`);
    if (last !== undefined && !this.#dependencies.published.has(name)) {
      this.metrics.deleted(name, last);
      this.#noteMemory(name, undefined);
    }
    if (!this.#dependencies.published.has(name)) this.#dependencies.memories.forget(name);
    return done;
  }

  /** Slots that lacked memory are tried again once another slot has released some. */
  #noteMemory(name: string, after: PublishedSlot | undefined): void {
    const { freed, clock, published } = this.#dependencies;
    if (!freed.note(name, after, clock.now())) return;
    for (const [other, { status }] of published) {
      if (other !== name && status.lastError?.reason === memoryReason && status.failures > 0) this.#enqueue(other);
    }
  }
}
