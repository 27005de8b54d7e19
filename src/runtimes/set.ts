import type { RuntimeKind } from "../api/names.ts";
import type { ProcessRef } from "../api/process-ref.ts";
import type { Observed, ProcessStatus, Workload } from "../api/workload.ts";
import { bootId } from "../lib/boot-id.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { RuntimeUnavailable } from "./runtime-unavailable.ts";
import type { HostPorts } from "./host-ports.ts";
import type {
  EngineOwner,
  Preparation,
  RemoveOptions,
  Runtime,
  Runtimes,
  RuntimeTraits,
  StartOptions,
} from "./runtime.ts";

/** A runtime that is opened when it is first needed: an installation of processes alone never connects to a daemon. */
export interface RuntimeEntry {
  readonly traits: RuntimeTraits;
  /** Only a slot or a setting that names it gets it: `runtime: auto` never chooses it. */
  readonly isNamedOnly?: boolean;
  /** `signal` shortens the wait for its first answer. */
  open(signal: AbortSignal): Promise<Runtime>;
}

/**
 * Several runtimes as one. During a move a slot may have processes in two of them, so reads and removals go to all; an
 * unreachable one matters only to slots that it concerns.
 */
export class RuntimeSet implements Runtimes {
  readonly kinds: readonly RuntimeKind[];
  readonly offered: readonly RuntimeKind[];
  readonly alwaysThere: RuntimeKind;
  /** The boot of this machine; `api/engine-identity.ts` says which engines it ends. */
  readonly boot = bootId();
  readonly #entries: readonly RuntimeEntry[];
  readonly #open = new Map<RuntimeKind, Promise<Runtime>>();
  readonly #opened: Runtime[];
  /** Why those that are needed could not be opened. */
  readonly #unopened = new Map<RuntimeKind, unknown>();
  readonly #first: Runtime;
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #answering = new Subscribers<[]>();
  readonly #watches: Disposable[] = [];
  readonly #stopWaiting = new AbortController();
  #waitLimitMs: number | undefined;
  #firstWatch: Disposable | undefined;

  readonly #check: () => void;

  /** `first` always answers. `check` throws where this operator may not act any more. */
  constructor(first: Runtime, entries: readonly RuntimeEntry[] = [], check: () => void = () => undefined) {
    this.#check = check;
    this.alwaysThere = first.traits.kind;
    this.kinds = [...entries.map(({ traits }) => traits.kind), first.traits.kind];
    this.offered = entries.flatMap(({ traits, isNamedOnly }) => (isNamedOnly === true ? [] : [traits.kind]));
    this.#first = first;
    this.#opened = [first];
    this.#open.set(first.traits.kind, Promise.resolve(first));
    this.#entries = entries;
  }

  /** Opens it unless it is open. Throws for an unknown runtime. */
  async need(kind: RuntimeKind): Promise<Runtime> {
    const known = this.#open.get(kind);
    if (known !== undefined) return await known;
    const entry = this.#entries.find(({ traits }) => traits.kind === kind);
    if (entry === undefined) throw new Error(`there is no runtime ${kind} here`);
    const opening = entry.open(this.#stopWaiting.signal).then(async (runtime) => {
      this.#opened.push(runtime);
      this.#unopened.delete(kind);
      if (this.#waitLimitMs !== undefined) runtime.limitUnreachableWait?.(this.#waitLimitMs);
      this.#watches.push(await runtime.watch((slot) => this.#subscribers.notify(slot)));
      const watch = runtime.watchAnswering?.(() => this.#answering.notify());
      if (watch !== undefined) this.#watches.push(watch);
      return runtime;
    });
    this.#open.set(kind, opening);
    opening.catch((error: unknown) => {
      this.#open.delete(kind);
      this.#unopened.set(kind, error);
    });
    return await opening;
  }

  get hostPorts(): HostPorts {
    return this.#first.hostPorts ?? noPorts;
  }

  /** The user of engines that are processes of this machine; undefined: the user of this process. */
  async engineOwner(): Promise<EngineOwner | undefined> {
    return await this.#first.engineOwner?.();
  }

  limitUnreachableWait(ms: number): void {
    this.#waitLimitMs = ms;
    for (const runtime of this.#opened) runtime.limitUnreachableWait?.(ms);
    this.#stopWaiting.abort();
  }

  traitsOf(kind: RuntimeKind): RuntimeTraits | undefined {
    return [this.#first, ...this.#entries].find(({ traits }) => traits.kind === kind)?.traits;
  }

  owns(engine: ProcessStatus, pid: number): boolean {
    try {
      return [this.#first, ...this.#entries].some(({ traits }) => traits.owns(engine, pid));
    } catch {
      // The process is gone.
      return false;
    }
  }

  /** Whether that runtime is open and answers now. */
  answers(kind: RuntimeKind): boolean {
    const runtime = this.#opened.find((opened) => opened.traits.kind === kind);
    return runtime !== undefined && runtime.isAnswering?.() !== false;
  }

  /** Calls `onChange` whenever `answers` changes for an open runtime. */
  watchAnswering(onChange: () => void): Disposable {
    return this.#answering.add(onChange);
  }

  async observe(slot: string, concerned: readonly RuntimeKind[] = []): Promise<readonly Observed[]> {
    for (const kind of concerned) if (this.traitsOf(kind) !== undefined) await this.need(kind);
    const found: Observed[] = [];
    for (const runtime of this.#opened) {
      try {
        found.push(...(await runtime.observe(slot)));
      } catch (error) {
        if (!(error instanceof RuntimeUnavailable) || concerned.includes(runtime.traits.kind)) throw error;
      }
    }
    return found;
  }

  /** Without those of an unreachable runtime. */
  async list(): Promise<readonly string[]> {
    const slots = new Set<string>();
    for (const runtime of this.#opened) {
      try {
        for (const slot of await runtime.list()) slots.add(slot);
      } catch (error) {
        if (!(error instanceof RuntimeUnavailable)) throw error;
      }
    }
    return [...slots];
  }

  async preparation(workload: Workload, attempt: string): Promise<Preparation> {
    const runtime = await this.need(workload.runtime);
    return (await runtime.preparation?.(workload, attempt)) ?? { state: "ready" };
  }

  async fetch(workload: Workload, attempt: string): Promise<void> {
    this.#check();
    await (await this.need(workload.runtime)).fetch?.(workload, attempt);
  }

  async keepFetches(slot: string, images: readonly string[]): Promise<void> {
    for (const runtime of this.#opened) await runtime.keepFetches?.(slot, images);
  }

  async ensure(workload: Workload, options?: StartOptions): Promise<void> {
    this.#check();
    await (await this.need(workload.runtime)).ensure(workload, options);
  }

  async remove(slot: string, process: ProcessRef | undefined, options: RemoveOptions): Promise<void> {
    this.#check();
    // A failure of one runtime must not interrupt the removal in another.
    const results = await Promise.allSettled(
      this.#opened.map((runtime) => removeFrom(runtime, slot, process, options)),
    );
    const failures = results.flatMap((result): readonly unknown[] =>
      result.status === "rejected" ? [result.reason] : [],
    );
    failures.push(...this.#unopened.values());
    const hasFound = results.some((result) => result.status === "fulfilled" && result.value);
    // If anything was found and removed, that was the target: an unreachable runtime does not concern the slot, or
    // reports later that it does.
    const [failure] = hasFound ? failures.filter((error) => !(error instanceof RuntimeUnavailable)) : failures;
    if (failure !== undefined) throw failure;
  }

  /** Undefined: the runtime writes it into the directory of logs. */
  async firstOutput(process: Observed): Promise<string | undefined> {
    return await this.#opened.find(({ traits }) => traits.identity in process.id)?.firstOutput?.(process);
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    const listening = this.#subscribers.add(onSlot);
    this.#firstWatch ??= await this.#first.watch((slot) => this.#subscribers.notify(slot));
    return listening;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    this.#answering.clear();
    this.#firstWatch?.[Symbol.dispose]();
    // A runtime that is being opened must not outlive the set.
    this.#stopWaiting.abort();
    await Promise.allSettled(this.#open.values());
    for (const watch of this.#watches) watch[Symbol.dispose]();
    for (const runtime of this.#opened.toReversed()) await runtime[Symbol.asyncDispose]();
  }
}

const noPorts: HostPorts = {
  listening: () => undefined,
  isTakenByStranger: () => false,
  recorded: async () => [],
};

/**
 * True if there was anything to remove. Searching for the rest of an engine is expensive: nothing is searched where
 * nothing was found.
 */
async function removeFrom(
  runtime: Runtime,
  slot: string,
  process: ProcessRef | undefined,
  options: RemoveOptions,
): Promise<boolean> {
  let isKnown = true;
  try {
    isKnown = (await runtime.observe(slot)).length > 0;
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
  }
  if (isKnown) await runtime.remove(slot, process, options);
  return isKnown;
}
