import { statfs } from "node:fs/promises";
import type { Logger } from "pino";
import { cacheTypesOf, savedContextBytes } from "../../api/context-cost.ts";
import { duration } from "../../api/duration.ts";
import type { ModelRecord } from "../../api/model.ts";
import { processKey, processName, type SlotProcess } from "../../api/process-ref.ts";
import type { SavedContext, SavedPlace } from "../../api/saved-context.ts";
import type { SlotSpec } from "../../api/slot.ts";
import type { KeptContext } from "../../api/kept-context.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { refusalIn, withoutContextPlace } from "../../engines/kept-context.ts";
import { byteText } from "../../api/byte-text.ts";
import { errorMessage } from "../../lib/error-code.ts";
import type { ContextFiles, ContextLimits } from "../../store/state/context-files.ts";
import type { Runtimes } from "../../runtimes/runtime.ts";
import type { Clock } from "../queue.ts";
import type { SlotMemories } from "../slot-memory.ts";
import { ContextCalls, type Place } from "./calls.ts";
import { contextKey, imageOf } from "./key.ts";
import { limitsOf } from "./limits.ts";
import { sizeText, textOf } from "./messages.ts";

/** The time limit of an unload for an engine that saves, and of a start for an engine that reads. */
const saveLimitMs = 10_000;
const restoreLimitMs = 30_000;
/** A shorter prompt is read again in no time. */
const leastTokens = 64;

export interface EngineContextsOptions {
  readonly files: ContextFiles;
  /** Keep each slot's last result, and its refusals. */
  readonly memories: Pick<SlotMemories, "of">;
  readonly clock: Pick<Clock, "now" | "elapsedMs">;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Free disk space that a context leaves free. */
  readonly reserveBytes: number;
  readonly models: () => ReadonlyMap<string, ModelRecord>;
  readonly runtime: Pick<Runtimes, "preparation">;
  /** The first output of an engine, also of one that has ended. */
  readonly outputOf: (process: Observed) => Promise<string>;
}

/**
 * The context of prompts over an unload: an engine saves it before it is stopped, and the next engine of the same model,
 * settings and program reads it before it is ready. No failure here keeps a slot from being unloaded or loaded.
 */
export class EngineContexts {
  readonly #files: ContextFiles;
  readonly #clock: Pick<Clock, "now" | "elapsedMs">;
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #reserveBytes: number;
  readonly #models: () => ReadonlyMap<string, ModelRecord>;
  readonly #runtime: EngineContextsOptions["runtime"];
  readonly #outputOf: EngineContextsOptions["outputOf"];
  readonly #memories: Pick<SlotMemories, "of">;
  /** Processes whose files are being written or read. */
  readonly #busy = new Set<string>();

  constructor(options: EngineContextsOptions) {
    this.#files = options.files;
    this.#memories = options.memories;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#reserveBytes = options.reserveBytes;
    this.#models = options.models;
    this.#runtime = options.runtime;
    this.#outputOf = options.outputOf;
  }

  /** The last result about the slot, of this operator. */
  latest(slot: string): KeptContext | undefined {
    return this.#memories.of(slot).context;
  }

  /** The workload to start: without its directory for contexts where that cannot be made, or its engine refused it. */
  async prepared(workload: Workload, ref: string | undefined): Promise<Workload> {
    const { hash, container } = workload;
    const model = ref === undefined ? undefined : this.#models().get(ref);
    if (workload.contextPlace === undefined) {
      if (workload.role === "main") await this.#files.end(workload).catch(() => undefined);
      return workload;
    }
    try {
      if (model === undefined) throw new Error(`the model ${ref ?? ""} is not known any more`);
      const key = await contextKey(workload, model, await imageOf(this.#runtime, workload));
      const refusal = this.#memories.of(workload.slot).contextRefusals.get(processName(workload));
      if (refusal?.key === key) return await this.refused(workload, new Error(refusal.message));
      await this.#files.begin(workload, { hash, key, ref: model.ref, isContainer: container !== undefined });
      return workload;
    } catch (error) {
      return this.#without(workload, error);
    }
  }

  /** The workload without its place for contexts, which its runtime or its engine refused. */
  async refused(workload: Workload, error: unknown): Promise<Workload> {
    await this.#files.end(workload).catch(() => undefined);
    return this.#without(workload, error);
  }

  /** Takes note of an engine that has ended by itself for its place to save to: the next starts without. */
  async ended(process: Observed, spec: SlotSpec | undefined): Promise<void> {
    if (spec?.model.keepContext === undefined) return;
    await this.#during(process, async () => {
      const running = await this.#files.running(process, process.hash);
      const said = running && refusalIn(await this.#outputOf(process));
      if (running === undefined || said === undefined) return;
      const refusal = { key: running.key, message: `the engine before ended for it: ${said}` };
      this.#memories.of(process.slot).contextRefusals.set(processName(process), refusal);
    });
  }

  /**
   * Has the engine save the context of its places, within `saveLimitMs` and `limitMs`. Never rejects. The milliseconds
   * that it took.
   */
  async save(process: Observed, spec: SlotSpec, limitMs: number): Promise<number> {
    const limits = limitsOf(spec);
    if (limits === undefined) return 0;
    const began = this.#clock.elapsedMs();
    const allowedMs = Math.min(saveLimitMs, limitMs);
    await this.#during(process, async () => {
      const running = await this.#files.running(process, process.hash);
      if (running === undefined) return;
      // The engine's present context replaces what was saved for it.
      const before = await this.#files.take(process, running.key);
      for (const { file } of before?.places ?? []) await this.#files.remove(process, file);
      using calls = new ContextCalls(process, AbortSignal.timeout(allowedMs));
      const places: SavedPlace[] = [];
      const room = await this.#room(limits);
      const cost = this.#models().get(running.ref)?.contextCost;
      const types = cacheTypesOf(spec.args, spec.env);
      let failure: string | undefined;
      try {
        for (const place of await calls.openPlaces(spec.model.parallel)) {
          const needed = cost === undefined ? 0 : savedContextBytes(cost, place.tokens ?? 0, types);
          const used = places.reduce((sum, { bytes }) => sum + bytes, 0);
          if (needed > room - used) failure = `a context of about ${byteText(needed)} has no room`;
          else
            places.push(
              ...(await this.#savePlace(calls, process, `${running.key.slice(0, 16)}-${place.id}.bin`, place)),
            );
        }
      } catch (error) {
        failure = textOf(error, allowedMs);
      }
      if (places.length > 0) {
        const savedAt = this.#clock.now().toISOString();
        const context: SavedContext = { key: running.key, ref: running.ref, savedAt, places };
        if (await this.#files.put(process, context, limits, this.#clock.now())) {
          this.#note(process, "saved", sizeText(places), places);
          return;
        }
        failure = `${sizeText(places)} are more than its limit of ${byteText(limits.maxBytes)}`;
      }
      await this.#files.trim(process, limits, this.#clock.now());
      if (failure !== undefined) this.#note(process, "dropped", `it was not saved: ${failure}`);
    });
    return this.#clock.elapsedMs() - began;
  }

  /**
   * Has a new engine read what its predecessor saved, once, before it is ready. Its own count of tokens must be the one
   * that was saved; else its place is emptied. Never rejects.
   */
  async restore(process: Observed, spec: SlotSpec, signal: AbortSignal): Promise<void> {
    const limits = limitsOf(spec);
    if (limits === undefined) return;
    await this.#during(process, async () => {
      const running = await this.#files.running(process, process.hash);
      if (running === undefined) return;
      await this.#files.trim(process, limits, this.#clock.now());
      // Deleted from the record first: an engine that a file ends does not get the file again.
      const context = await this.#files.take(process, running.key);
      if (context === undefined) return;
      using calls = new ContextCalls(process, AbortSignal.any([signal, AbortSignal.timeout(restoreLimitMs)]));
      const restored: SavedPlace[] = [];
      let failure: string | undefined;
      try {
        for (const saved of context.places) {
          const why = await this.#restorePlace(calls, process, saved);
          if (why === undefined) restored.push(saved);
          else failure = why;
        }
      } catch (error) {
        failure = textOf(error, restoreLimitMs);
      }
      for (const { file } of context.places) await this.#files.remove(process, file);
      const since = `saved ${duration(Math.round((this.#clock.now().getTime() - Date.parse(context.savedAt)) / 1000))} before`;
      if (restored.length > 0) this.#note(process, "restored", `${sizeText(restored)}, ${since}`, restored);
      if (failure !== undefined) this.#note(process, "dropped", `it was not restored: ${failure}`, restored);
    });
  }

  /** Deletes what is left of a process that has ended: files that were not whole. */
  async left(process: SlotProcess, spec: SlotSpec | undefined): Promise<void> {
    const limits = spec && limitsOf(spec);
    if (limits === undefined || process.role !== "main") return;
    await this.#during(process, () => this.#files.trim(process, limits, this.#clock.now()));
  }

  /** Deletes everything of a slot that is gone. */
  async forget(slot: string): Promise<void> {
    this.#memories.of(slot).context = undefined;
    await this.#files.forget(slot).catch((error: unknown) => this.#warn(slot, error));
  }

  /** Deletes what is too old, and what belongs to no slot or process that keeps its context. Never rejects. */
  async sweep(specOf: (slot: string) => SlotSpec | undefined): Promise<void> {
    for (const [slot, names] of await this.#files.list()) {
      const spec = specOf(slot);
      const limits = spec && limitsOf(spec);
      if (spec === undefined || limits === undefined) {
        await this.forget(slot);
        continue;
      }
      const count = spec.replicas ?? 1;
      for (const name of names) {
        const ordinal = [...Array(count).keys()].find((each) => processName({ role: "main", ordinal: each }) === name);
        const process = { slot, role: "main", ordinal: ordinal ?? Number(name.split("-")[1]) } as const;
        if (this.#busy.has(processKey(process))) continue;
        const work =
          ordinal === undefined ? this.#files.end(process) : this.#files.trim(process, limits, this.#clock.now());
        await work.catch((error: unknown) => this.#warn(slot, error));
      }
    }
  }

  #without(workload: Workload, error: unknown): Workload {
    this.#note(workload, "dropped", `it starts without a place for its context: ${errorMessage(error)}`);
    return withoutContextPlace(workload);
  }

  async #savePlace(
    calls: ContextCalls,
    process: Observed,
    file: string,
    { id }: Place,
  ): Promise<readonly SavedPlace[]> {
    const { tokens, bytes } = await calls.save(id, file);
    const sealed = tokens < leastTokens ? undefined : await this.#files.seal(process, file, bytes);
    if (tokens >= leastTokens && sealed === undefined)
      throw new Error(`the engine wrote another size than ${bytes} bytes`);
    if (sealed !== undefined) return [{ place: id, file, bytes, tokens, ...sealed }];
    await this.#files.remove(process, file);
    return [];
  }

  /** Why the place is empty; undefined: it was restored. */
  async #restorePlace(calls: ContextCalls, process: Observed, saved: SavedPlace): Promise<string | undefined> {
    // llama-server aborts on a file that was cut.
    if (!(await this.#files.isWhole(process, saved))) return "its file is not as it was saved";
    const { tokens, bytes } = await calls.restore(saved.place, saved.file);
    if (tokens === saved.tokens && bytes === saved.bytes) return undefined;
    await calls.erase(saved.place);
    return `the engine counts ${tokens} tokens, and saved ${saved.tokens}`;
  }

  /** The bytes that may be written: within the slot's limit, and without filling the disk. */
  async #room({ maxBytes }: ContextLimits): Promise<number> {
    const { bavail, bsize } = await statfs(this.#files.directory);
    return Math.min(maxBytes, bavail * bsize - this.#reserveBytes);
  }

  async #during(process: SlotProcess, work: () => Promise<void>): Promise<void> {
    const key = processKey(process);
    this.#busy.add(key);
    try {
      await work();
    } catch (error) {
      this.#note(process, "dropped", errorMessage(error));
    } finally {
      this.#busy.delete(key);
    }
  }

  #note(
    process: SlotProcess,
    result: KeptContext["result"],
    message: string,
    places: readonly SavedPlace[] = [],
  ): void {
    const { slot } = process;
    const tokens = places.reduce((sum, place) => sum + place.tokens, 0);
    const bytes = places.reduce((sum, place) => sum + place.bytes, 0);
    const which = process.ordinal === 0 ? "" : `${processName(process)}: `;
    const at = this.#clock.now().toISOString();
    this.#memories.of(slot).context = { at, result, message: `${which}${message}`, tokens, bytes };
    const level = result === "dropped" ? "warn" : "info";
    this.#log[level](
      { slot, process: processName(process), result, tokens, bytes },
      `${slot}: context ${result}: ${which}${message}`,
    );
  }

  #warn(slot: string, error: unknown): void {
    this.#log.warn({ slot, err: error }, `${slot}: its saved context could not be deleted`);
  }
}
