import type { ProcessRole, RuntimeKind } from "../api/names.ts";
import type { Observed, Workload } from "../api/workload.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { RuntimeUnavailable } from "./runtime-unavailable.ts";
import type { Preparation, RemoveOptions, Runtime } from "./runtime.ts";

/** Opened when it is first needed: an installation of processes alone never asks a daemon. `signal`: be quick. */
export type Openers = Readonly<Partial<Record<RuntimeKind, (signal: AbortSignal) => Promise<Runtime>>>>;

/**
 * Several runtimes as one. A slot may have something in each for the moment of a move, so looking and removing ask all;
 * one that cannot be asked matters only to slots that it concerns.
 */
export class RuntimeSet implements Runtime {
  readonly kind: RuntimeKind;
  readonly #openers: Openers;
  readonly #open = new Map<RuntimeKind, Promise<Runtime>>();
  readonly #opened: Runtime[];
  readonly #first: Runtime;
  readonly #subscribers = new Subscribers<[slot: string]>();
  readonly #answering = new Subscribers<[]>();
  readonly #watches: Disposable[] = [];
  readonly #hurrying = new AbortController();
  #hurryMs: number | undefined;
  #firstWatch: Disposable | undefined;

  /** `first` is always there. */
  constructor(first: Runtime, openers: Openers = {}) {
    this.kind = first.kind;
    this.#first = first;
    this.#opened = [first];
    this.#open.set(first.kind, Promise.resolve(first));
    this.#openers = openers;
  }

  /** Opens it unless it is open. Throws when there is no such runtime here. */
  async need(kind: RuntimeKind): Promise<Runtime> {
    const known = this.#open.get(kind);
    if (known !== undefined) return await known;
    const opener = this.#openers[kind];
    if (opener === undefined) throw new Error(`there is no runtime ${kind} here`);
    const opening = opener(this.#hurrying.signal).then(async (runtime) => {
      this.#opened.push(runtime);
      if (this.#hurryMs !== undefined) runtime.hurry?.(this.#hurryMs);
      this.#watches.push(await runtime.watch((slot) => this.#subscribers.tell(slot)));
      const watch = runtime.watchAnswering?.(() => this.#answering.tell());
      if (watch !== undefined) this.#watches.push(watch);
      return runtime;
    });
    this.#open.set(kind, opening);
    opening.catch(() => this.#open.delete(kind));
    return await opening;
  }

  hurry(ms: number): void {
    this.#hurryMs = ms;
    for (const runtime of this.#opened) runtime.hurry?.(ms);
    this.#hurrying.abort();
  }

  /** Whether that runtime is open and can be asked now. */
  answers(kind: RuntimeKind): boolean {
    const runtime = this.#opened.find((opened) => opened.kind === kind);
    return runtime !== undefined && runtime.isAnswering?.() !== false;
  }

  /** Calls `onChange` whenever `answers` says something else of a runtime that is open. */
  watchAnswering(onChange: () => void): Disposable {
    return this.#answering.add(onChange);
  }

  async observe(slot: string, concerned: readonly RuntimeKind[] = []): Promise<readonly Observed[]> {
    for (const kind of concerned) if (this.#openers[kind] !== undefined) await this.need(kind);
    const found: Observed[] = [];
    for (const runtime of this.#opened) {
      try {
        found.push(...(await runtime.observe(slot)));
      } catch (error) {
        if (!(error instanceof RuntimeUnavailable) || concerned.includes(runtime.kind)) throw error;
      }
    }
    return found;
  }

  /** Without those of a runtime that cannot be asked now. */
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

  async prepare(workload: Workload, attempt: string): Promise<Preparation> {
    const runtime = await this.need(workload.runtime);
    return (await runtime.prepare?.(workload, attempt)) ?? { state: "ready" };
  }

  async ensure(workload: Workload): Promise<void> {
    await (await this.need(workload.runtime)).ensure(workload);
  }

  async remove(slot: string, role: ProcessRole | undefined, options: RemoveOptions): Promise<void> {
    // One that fails must not cut short what another is about to end.
    const results = await Promise.allSettled(this.#opened.map((runtime) => removeFrom(runtime, slot, role, options)));
    const failures = results.flatMap((result): readonly unknown[] =>
      result.status === "rejected" ? [result.reason] : [],
    );
    const hasFound = results.some((result) => result.status === "fulfilled" && result.value);
    // What was found and ended is what was meant: a silent one does not concern the slot, or tells later that it does.
    const [failure] = hasFound ? failures.filter((error) => !(error instanceof RuntimeUnavailable)) : failures;
    if (failure !== undefined) throw failure;
  }

  async watch(onSlot: (slot: string) => void): Promise<Disposable> {
    const listening = this.#subscribers.add(onSlot);
    this.#firstWatch ??= await this.#first.watch((slot) => this.#subscribers.tell(slot));
    return listening;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    this.#answering.clear();
    this.#firstWatch?.[Symbol.dispose]();
    // One that is being opened must not outlive the set.
    this.#hurrying.abort();
    await Promise.allSettled(this.#open.values());
    for (const watch of this.#watches) watch[Symbol.dispose]();
    for (const runtime of this.#opened.toReversed()) await runtime[Symbol.asyncDispose]();
  }
}

/**
 * True where there was something. Looking for what is left of an engine is dear: nothing is looked for where there has
 * been none.
 */
async function removeFrom(
  runtime: Runtime,
  slot: string,
  role: ProcessRole | undefined,
  options: RemoveOptions,
): Promise<boolean> {
  let isKnown = true;
  try {
    isKnown = (await runtime.observe(slot)).length > 0;
  } catch (error) {
    if (!(error instanceof RuntimeUnavailable)) throw error;
  }
  if (isKnown) await runtime.remove(slot, role, options);
  return isKnown;
}
