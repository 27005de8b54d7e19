import { GgufError } from "../gguf-reader.ts";
import { HeaderFiles } from "../header-files.ts";
import { shapeOf, UnknownShape, type ModelShape } from "./shape.ts";

/** The number of cached models; each takes kilobytes. */
const most = 64;

/** Caches the shapes of models by their files. A shape is read again only after its files have changed. */
export class ShapeCache {
  readonly #known = new Map<string, ModelShape | UnknownShape>();
  readonly #headers: HeaderFiles;

  constructor(headers = new HeaderFiles()) {
    this.#headers = headers;
  }

  /** A changed file has another `fingerprint`. Undefined if no shape can be read from the files. */
  async of(files: readonly string[], fingerprint: string): Promise<ModelShape | undefined> {
    const key = `${fingerprint} ${files.join(" ")}`;
    const known = this.#known.get(key) ?? (await this.#read(files));
    if (known === undefined) return undefined;
    this.#known.delete(key);
    this.#known.set(key, known);
    for (const [oldest] of this.#known) if (this.#known.size > most) this.#known.delete(oldest);
    return known instanceof UnknownShape ? undefined : known;
  }

  async #read(files: readonly string[]): Promise<ModelShape | UnknownShape | undefined> {
    try {
      return await this.#headers.read(files, shapeOf);
    } catch (error) {
      if (error instanceof UnknownShape) return error;
      if (error instanceof GgufError) return new UnknownShape(error.message, { cause: error });
      // The file may be readable at the next call.
      return undefined;
    }
  }
}
