import { Serial } from "../lib/serial.ts";
import { openFileSource } from "./byte-source.ts";
import { readGgufHeader, type GgufHeader } from "./gguf-header.ts";
import { HeaderRoom } from "./gguf-reader.ts";

export interface FileHeader extends GgufHeader {
  /** The size of the file. */
  readonly sizeBytes: number;
}

/** Reads the headers of files on this machine, of one model at a time: nobody limits the number of models otherwise. */
export class HeaderFiles {
  readonly #turns = new Serial();

  /**
   * The result of `use` for the headers of a model's files, in order. Rejects with GgufError, as `use` throws, and where a
   * file cannot be read.
   */
  async read<T>(paths: readonly string[], use: (headers: readonly FileHeader[]) => T): Promise<T> {
    return await this.#turns.run(async () => {
      const headers: FileHeader[] = [];
      const room = new HeaderRoom();
      for (const path of paths) {
        await using source = await openFileSource(path);
        headers.push({ ...(await readGgufHeader(source, room)), sizeBytes: source.sizeBytes });
      }
      return use(headers);
    });
  }
}
