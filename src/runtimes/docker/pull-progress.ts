import type { FetchProgress } from "../runtime.ts";
import { parseJson } from "../../lib/json.ts";

/** One line of the daemon's answer to a pull. */
interface PullLine {
  readonly status?: string;
  /** A layer's short id. */
  readonly id?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
}

interface Layer {
  done: number;
  /** The layer's bytes when the daemon reported the time before. */
  before: number;
  total: number | undefined;
  /** The layer's connection broke, and the daemon waits before it continues. */
  isBroken: boolean;
}

const isAnnounced = new Set(["Pulling fs layer", "Waiting"]);
const isFetched = new Set(["Verifying Checksum", "Download complete", "Extracting", "Pull complete"]);

/** Bytes over all layers of one pull, from the daemon's lines about single layers. */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  readonly #startedAt: number;
  #lastLineAt: number;
  #error: string | undefined;

  constructor(startedAt = performance.now()) {
    this.#startedAt = startedAt;
    this.#lastLineAt = startedAt;
  }

  /** The daemon's error message. */
  get error(): string | undefined {
    return this.#error;
  }

  take(text: string, now = performance.now()): void {
    const line = parsed(text);
    if (line === undefined) return;
    this.#lastLineAt = now;
    this.#error ??= line.error;
    const { id, status = "", progressDetail } = line;
    if (id === undefined) return;
    const known = this.#layers.get(id);
    // "Already exists" and the rest move no bytes.
    if (isAnnounced.has(status))
      this.#layers.set(id, known ?? { done: 0, before: 0, total: undefined, isBroken: false });
    else if (status === "Downloading") this.#layers.set(id, downloading(known, progressDetail));
    else if (known === undefined) return;
    else if (status.startsWith("Retrying in")) {
      // Docker counts a layer as complete when it closes a broken connection.
      if (known.done === known.total) known.done = known.before;
      known.isBroken = true;
    } else if (isFetched.has(status)) {
      // A small one may be complete before its size is reported.
      known.total ??= known.done;
      known.done = known.total;
      known.isBroken = false;
    }
  }

  /** The time without a line about it. */
  sinceLineMs(now = performance.now()): number {
    return now - this.#lastLineAt;
  }

  /** Whether the daemon waits before it continues a layer whose connection broke. */
  get isBroken(): boolean {
    return [...this.#layers.values()].some((layer) => layer.isBroken);
  }

  /** The total is known once every layer has begun. */
  read(now = performance.now()): FetchProgress {
    const layers = [...this.#layers.values()];
    const bytesDone = layers.reduce((sum, { done }) => sum + done, 0);
    const totals = layers.map(({ total }) => total);
    const bytesTotal = totals.includes(undefined)
      ? undefined
      : totals.reduce<number>((sum, total) => sum + (total ?? 0), 0);
    const seconds = (now - this.#startedAt) / 1000;
    return {
      bytesDone,
      ...(bytesTotal === undefined || layers.length === 0 ? {} : { bytesTotal }),
      bytesPerSecond: seconds > 0 ? Math.round(bytesDone / seconds) : 0,
    };
  }
}

/** Docker counts the rest of a broken layer: its earlier bytes count too. */
function downloading(known: Layer | undefined, detail: PullLine["progressDetail"] = {}): Layer {
  const { current, total } = detail;
  const whole = Math.max(total ?? 0, known?.total ?? 0);
  const had = total === undefined ? 0 : whole - total;
  return {
    done: current === undefined ? (known?.done ?? 0) : had + current,
    before: known?.done ?? 0,
    total: whole === 0 ? undefined : whole,
    isBroken: false,
  };
}

function parsed(text: string): PullLine | undefined {
  const value = parseJson(text);
  return isLine(value) ? value : undefined;
}

function isLine(value: unknown): value is PullLine {
  return typeof value === "object" && value !== null;
}
