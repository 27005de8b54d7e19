import { parseJson } from "../../lib/json.ts";
import type { Sample } from "../../lib/metrics/spec.ts";
import { isRecord } from "../../lib/record.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { wholeAnswer } from "../../lib/whole-answer.ts";
import type { Admission } from "../admission/admission.ts";
import type { Backend } from "../admission/backend.ts";
import type { ResolutionIndex } from "../routing/index.ts";

/** An engine that works answers between two batches: a scrape waits no longer than this, and takes the last figure. */
const patienceMs = 100;
const answerMs = 2000;
const answerLimitBytes = 4 * 1024 * 1024;
/** An older figure is not published. */
const keptMs = 60_000;

interface Figure {
  readonly ratio: number;
  readonly at: number;
}

/** How full the caches of llama.cpp's engines are, by their `/slots`, read only at a scrape. */
export class EngineCaches {
  readonly #index: () => Pick<ResolutionIndex, "slots">;
  readonly #admission: Pick<Admission, "backends">;
  readonly #figures = new WeakMap<Backend, Figure>();
  readonly #open = new WeakMap<Backend, Promise<void>>();
  /** Engines without that route. */
  readonly #without = new WeakSet<Backend>();

  constructor(index: () => Pick<ResolutionIndex, "slots">, admission: Pick<Admission, "backends">) {
    this.#index = index;
    this.#admission = admission;
  }

  /** Reads the figures of all engines. Resolves once all engines have answered, or after `patienceMs`. */
  async refresh(): Promise<void> {
    const readings = [...this.#engines()].map(({ backend }) => this.#read(backend));
    if (readings.length === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, patienceMs);
    await Promise.race([Promise.all(readings), promise]);
    clearTimeout(timer);
  }

  *samples(): Iterable<Sample> {
    for (const { slot, backend } of this.#engines()) {
      const figure = this.#figures.get(backend);
      if (figure !== undefined && steadyNow() - figure.at < keptMs)
        yield [`slot="${slot}",ordinal="${backend.endpoint.ordinal}"`, figure.ratio];
    }
  }

  *#engines(): Iterable<{ readonly slot: string; readonly backend: Backend }> {
    for (const { name, spec } of this.#index().slots.values()) {
      if (spec.engine !== "llama") continue;
      // The queues of a slot's models, and the queue from before requests chose the model, have the same engine.
      const ordinals = new Set<number>();
      for (const { role, backend } of this.#admission.backends(name)) {
        if (role !== "main" || !backend.isReady || ordinals.has(backend.endpoint.ordinal)) continue;
        ordinals.add(backend.endpoint.ordinal);
        if (!this.#without.has(backend)) yield { slot: name, backend };
      }
    }
  }

  #read(backend: Backend): Promise<void> {
    let open = this.#open.get(backend);
    if (open === undefined) {
      open = this.#readOnce(backend).finally(() => this.#open.delete(backend));
      this.#open.set(backend, open);
    }
    return open;
  }

  async #readOnce(backend: Backend): Promise<void> {
    const request = { method: "GET", path: "/slots", accept: "application/json", body: undefined } as const;
    try {
      const limits = { timeoutMs: answerMs, limitBytes: answerLimitBytes };
      const { status, body } = await wholeAnswer(backend.pool, request, limits);
      if (status === 404 || status === 501) this.#without.add(backend);
      const ratio = status === 200 ? cacheRatio(parseJson(body.toString())) : undefined;
      if (ratio !== undefined) this.#figures.set(backend, { ratio, at: steadyNow() });
    } catch {
      // The engine is gone or busy: its last figure stays until the figure is too old.
    }
  }
}

/** Tokens in the cache by tokens that fit; undefined where the answer has another shape. */
export function cacheRatio(slots: unknown): number | undefined {
  if (!Array.isArray(slots) || slots.length === 0) return undefined;
  const all: unknown[] = slots;
  let held = 0;
  let room = 0;
  for (const slot of all) {
    if (!isRecord(slot) || typeof slot["n_ctx"] !== "number") return undefined;
    room += slot["n_ctx"];
    // A slot without a request so far has no counts.
    held += typeof slot["n_prompt_tokens"] === "number" ? slot["n_prompt_tokens"] : 0;
  }
  return room === 0 ? undefined : Math.min(1, held / room);
}
