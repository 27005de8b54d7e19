import { stat } from "node:fs/promises";
import { GgufError } from "../gguf-reader.ts";
import { HeaderFiles } from "../header-files.ts";
import { Keys } from "./keys.ts";

/** The work buffers of a picture: with flash attention, and without, where every patch is compared with every other one. */
interface Work {
  readonly flash: number;
  readonly whole: number;
}

/** The number of cached files. */
const most = 64;

/** The memory of projectors. A header is read again only after its file has changed. */
export class ProjectorCache {
  readonly #known = new Map<string, Work>();
  readonly #headers: HeaderFiles;

  constructor(headers = new HeaderFiles()) {
    this.#headers = headers;
  }

  /** The weights and the work buffer of the projector in that file. Rejects where the file cannot be read. */
  async bytesOf(path: string, hasFlashAttention: boolean): Promise<number> {
    const { size, mtimeMs } = await stat(path);
    const key = `${path} ${size} ${mtimeMs}`;
    const known = this.#known.get(key) ?? (await this.#read(path));
    this.#known.set(key, known);
    for (const [oldest] of this.#known) if (this.#known.size > most) this.#known.delete(oldest);
    return size + (hasFlashAttention ? known.flash : known.whole);
  }

  async #read(path: string): Promise<Work> {
    try {
      return await this.#headers.read([path], ([header]) => workOf(new Keys(header?.values ?? new Map(), "clip")));
    } catch (error) {
      if (error instanceof GgufError) return { flash: 0, whole: 0 };
      throw error;
    }
  }
}

/**
 * The largest moment of a layer, and the picture itself, in floats for each patch. Read off the figures of llama.cpp's
 * `reserve_compute_meta` for encoders of LLaVA's kind; encoders of pictures of any size may take more.
 */
function workOf(keys: Keys): Work {
  const image = keys.number("vision.image_size") ?? 0;
  const patch = keys.number("vision.patch_size") ?? 0;
  const width = keys.number("vision.embedding_length") ?? 0;
  const heads = keys.number("vision.attention.head_count") ?? 0;
  const inner = keys.number("vision.feed_forward_length") ?? 0;
  if (patch === 0) return { flash: 0, whole: 0 };
  const patches = Math.ceil(image / patch) ** 2 + 1;
  const forward = 4 * width + inner;
  const bytes = (each: number): number => patches * (3 * patch ** 2 + each) * 4;
  return {
    flash: bytes(Math.max(forward, 6 * width)),
    whole: bytes(Math.max(forward, 5 * width + heads * patches)),
  };
}
