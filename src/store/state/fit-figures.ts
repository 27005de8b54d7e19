import { join } from "node:path";
import { fitFiguresSchema, type FitFigures } from "../../api/fit.ts";
import { knownPart } from "../../api/known-part.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { readText } from "../../lib/read-text.ts";
import { Serial } from "../../lib/serial.ts";

export type Figure = FitFigures["figures"][string];
/** Combinations of model, settings and engine; the one with the oldest use is removed first. */
const most = 256;

/**
 * `<state>/fit.json`: the memory that engines say they need, and that they were measured to hold. The file can be
 * rebuilt.
 */
export class FitFigureFile {
  readonly #path: string;
  readonly #figures: Map<string, Figure>;
  readonly #onError: (error: unknown) => void;
  readonly #writes = new Serial();

  private constructor(path: string, figures: Map<string, Figure>, onError: (error: unknown) => void) {
    this.#path = path;
    this.#figures = figures;
    this.#onError = onError;
  }

  /** An unreadable file counts as empty, and `onError` is called. Never rejects. */
  static async open(stateDir: string, onError: (error: unknown) => void): Promise<FitFigureFile> {
    const path = join(stateDir, "fit.json");
    try {
      const text = await readText(path);
      const found = text === undefined ? undefined : knownPart(fitFiguresSchema, JSON.parse(text));
      return new FitFigureFile(path, new Map(Object.entries(found?.figures ?? {})), onError);
    } catch (error) {
      onError(error);
      return new FitFigureFile(path, new Map(), onError);
    }
  }

  get(key: string): Figure | undefined {
    return this.#figures.get(key);
  }

  /** Adds to the figures of that combination; written soon, and lost without harm. */
  put(key: string, more: Pick<Figure, "engine" | "measured">, now: Date): void {
    this.#figures.set(key, { ...this.#figures.get(key), ...more, usedAt: now.toISOString() });
    const oldest = [...this.#figures].toSorted(([, a], [, b]) => (a.usedAt < b.usedAt ? -1 : 1));
    for (const [name] of oldest.slice(0, Math.max(0, oldest.length - most))) this.#figures.delete(name);
    const file: FitFigures = { schema: 1, figures: Object.fromEntries(this.#figures) };
    void this.#writes
      .run(() => writeFileAtomic(this.#path, `${JSON.stringify(file)}\n`, { fsync: false }))
      .catch(this.#onError);
  }

  /** Resolves once all figures so far are written. */
  async settled(): Promise<void> {
    await this.#writes.settled();
  }
}
