import { readHeaders } from "../gguf.ts";
import { GgufError } from "../gguf-reader.ts";
import { shapeOf, UnknownShape, type ModelShape } from "./shape.ts";

/** The number of cached models; each takes kilobytes. */
const most = 64;

/** Caches the shapes of models by their files. A shape is read again only after its files have changed. */
export class ShapeCache {
  readonly #known = new Map<string, ModelShape | UnknownShape>();

  /** A changed file has another `fingerprint`. Undefined if no shape can be read from the files. */
  async of(files: readonly string[], fingerprint: string): Promise<ModelShape | undefined> {
    const key = `${fingerprint} ${files.join(" ")}`;
    const known = this.#known.get(key) ?? (await readShape(files));
    if (known === undefined) return undefined;
    this.#known.delete(key);
    this.#known.set(key, known);
    for (const [oldest] of this.#known) if (this.#known.size > most) this.#known.delete(oldest);
    return known instanceof UnknownShape ? undefined : known;
  }
}

async function readShape(files: readonly string[]): Promise<ModelShape | UnknownShape | undefined> {
  try {
    return shapeOf(await readHeaders(files));
  } catch (error) {
    if (error instanceof UnknownShape) return error;
    if (error instanceof GgufError) return new UnknownShape(error.message, { cause: error });
    // The file may be readable at the next call.
    return undefined;
  }
}
