import { Serial } from "../lib/serial.ts";
import { openFileSource } from "./byte-source.ts";
import { readGgufHeader, type GgufHeader } from "./gguf-header.ts";
import { HeaderRoom } from "./gguf-reader.ts";

interface FileHeader extends GgufHeader {
  /** The size of the file. */
  readonly sizeBytes: number;
}

/** Keeps in mind which file is read, beyond the end of the process. */
export interface ReadJournal {
  /** The reading ends with the disposal. Throws an Error where the file is not to be read. */
  read(path: string, stamp: string): Disposable;
}

/** Reads the headers of files on this machine, of one model at a time: nobody limits the number of models otherwise. */
export class HeaderFiles {
  readonly #turns = new Serial();
  readonly #journal: ReadJournal | undefined;

  constructor(journal?: ReadJournal) {
    this.#journal = journal;
  }

  /**
   * The result of `use` for the headers of a model's files, in order. Rejects with GgufError, as `use` throws, and where a
   * file cannot be read.
   */
  async read<T>(paths: readonly string[], use: (headers: readonly FileHeader[]) => T): Promise<T> {
    return await this.#turns.run(async () => {
      using reading = new DisposableStack();
      const headers: FileHeader[] = [];
      const room = new HeaderRoom();
      for (const path of paths) {
        await using source = await openFileSource(path);
        reading.use(this.#journal?.read(path, source.stamp));
        headers.push({ ...(await readGgufHeader(source, room)), sizeBytes: source.sizeBytes });
      }
      return use(headers);
    });
  }
}
