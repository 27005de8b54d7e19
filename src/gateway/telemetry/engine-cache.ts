import { sharedCache, type SharedCache } from "../../engines/shared-cache.ts";
import { parseForeign } from "../../lib/json.ts";
import type { Sample } from "../../lib/metrics/spec.ts";
import { isRecord } from "../../lib/record.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { wholeAnswer } from "../../lib/whole-answer.ts";
import type { Admission } from "../slots/admission.ts";
import type { Backend } from "../slots/backend.ts";
import type { KnownSlot, ResolutionIndex } from "../routing/index.ts";

/** Engines are queried this often while pages are read: an engine that works answers between two batches, and no page waits. */
const everyMs = 5000;
/** A page that is read more often has the engines queried at most so often. */
const leastMs = 1000;
/** So long after the last page, engines are queried. */
const wantedMs = 5 * 60_000;
const answerMs = 2000;
const answerLimitBytes = 4 * 1024 * 1024;
/** An older figure is not published. */
const keptMs = 60_000;

interface Figure {
  readonly ratio: number;
  readonly at: number;
}

/** How full the caches of llama.cpp's engines are, by their `/slots`, read only as long as somebody reads the page. */
export class EngineCaches implements Disposable {
  readonly #index: () => Pick<ResolutionIndex, "slots">;
  readonly #admission: Pick<Admission, "backends">;
  readonly #figures = new WeakMap<Backend, Figure>();
  /** Engines that have been queried and have not answered yet. */
  readonly #open = new WeakSet<Backend>();
  /** Engines without that route. */
  readonly #without = new WeakSet<Backend>();
  #wantedAt = -Infinity;
  #queriedAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(index: () => Pick<ResolutionIndex, "slots">, admission: Pick<Admission, "backends">) {
    this.#index = index;
    this.#admission = admission;
  }

  /** The last figures, which are at most some seconds old; none at the first call, which has the engines queried. */
  *samples(): Iterable<Sample> {
    this.#wantedAt = steadyNow();
    if (this.#wantedAt - this.#queriedAt >= leastMs) this.#readAll();
    for (const { slot, backend } of this.#engines()) {
      const figure = this.#figures.get(backend);
      if (figure !== undefined && steadyNow() - figure.at < keptMs)
        yield [`slot="${slot.name}",ordinal="${backend.endpoint.ordinal}"`, figure.ratio];
    }
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #readAll(): void {
    clearTimeout(this.#timer);
    const now = steadyNow();
    if (now - this.#wantedAt > wantedMs) return;
    this.#queriedAt = now;
    this.#timer = setTimeout(() => this.#readAll(), everyMs).unref();
    for (const { slot, backend } of this.#engines()) void this.#read(slot, backend);
  }

  *#engines(): Iterable<{ readonly slot: KnownSlot; readonly backend: Backend }> {
    for (const slot of this.#index().slots.values()) {
      if (slot.spec.engine !== "llama") continue;
      // The queues of a slot's models, and the queue from before requests chose the model, have the same engine.
      const ordinals = new Set<number>();
      for (const { role, backend } of this.#admission.backends(slot.name)) {
        if (role !== "main" || !backend.isReady || ordinals.has(backend.endpoint.ordinal)) continue;
        ordinals.add(backend.endpoint.ordinal);
        if (!this.#without.has(backend)) yield { slot, backend };
      }
    }
  }

  async #read(slot: KnownSlot, backend: Backend): Promise<void> {
    if (this.#open.has(backend)) return;
    this.#open.add(backend);
    const request = { method: "GET", path: "/slots", accept: "application/json", body: undefined } as const;
    try {
      const limits = { timeoutMs: answerMs, limitBytes: answerLimitBytes };
      const { status, body } = await wholeAnswer(backend.pool, request, limits);
      if (status === 404 || status === 501) this.#without.add(backend);
      const shared = sharedCache(slot.spec, slot.status);
      const ratio = status === 200 ? cacheRatio(parseForeign(body), shared) : undefined;
      if (ratio !== undefined) this.#figures.set(backend, { ratio, at: steadyNow() });
    } catch {
      // The engine is gone or busy: its last figure stays until the figure is too old.
    } finally {
      this.#open.delete(backend);
    }
  }
}

/** Tokens in the cache by tokens that fit, all `shared` or a part for each place; undefined where the answer has another shape. */
export function cacheRatio(places: unknown, shared?: SharedCache): number | undefined {
  if (!Array.isArray(places) || places.length === 0) return undefined;
  const all: unknown[] = places;
  let held = 0;
  let [sum, largest] = [0, 0];
  for (const place of all) {
    if (!isRecord(place) || typeof place["n_ctx"] !== "number") return undefined;
    sum += place["n_ctx"];
    largest = Math.max(largest, place["n_ctx"]);
    // A place without a request so far has no counts.
    held += typeof place["n_prompt_tokens"] === "number" ? place["n_prompt_tokens"] : 0;
  }
  // A place is told its own limit, which may be that of the model: the sum, and the largest, say little of a shared cache.
  const room = shared === undefined ? sum : (shared.tokens ?? largest);
  return room === 0 ? undefined : Math.min(1, held / room);
}
