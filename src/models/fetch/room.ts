import { stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Content } from "../../api/partial-record.ts";
import type { BlobStore } from "./blob-store.ts";
import { FetchError } from "./fetch-error.ts";
import { isSameContent, readPartial } from "./partial-record.ts";
import type { DownloadProgress } from "./progress.ts";

export interface RoomOptions {
  readonly store: BlobStore;
  /** The number of bytes that must stay free on the disk. */
  readonly reserveBytes: number;
  /** The free bytes of the disk of a directory; absent: the system's figure. */
  readonly freeBytes?: (path: string) => Promise<number>;
}

/** A model that is fetched from now on. */
export interface RoomRequest {
  readonly ref: string;
  readonly contents: readonly Content[];
  readonly totalBytes: number;
  readonly progress: Readonly<DownloadProgress>;
}

interface Reservation {
  readonly sources: ReadonlySet<string>;
  /** The bytes that are still to come. */
  leftBytes(): number;
}

/** The disk space of the fetches that run: a model is not begun where it and they do not fit together. */
export class Room {
  readonly #options: RoomOptions;
  readonly #reserved = new Set<Reservation>();

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** Reserves the missing bytes of a model until disposed. Rejects with FetchError where they do not fit. */
  async reserve({ ref, contents, totalBytes, progress }: RoomRequest): Promise<Disposable> {
    const { store, reserveBytes, freeBytes = systemFreeBytes } = this.#options;
    const missing = new Map<string, number>();
    for (const content of contents)
      missing.set(content.source, Math.max(0, content.sizeBytes - (await this.#presentBytes(content))));
    const free = await freeBytes(store.root);
    // From here on nothing is awaited: two models that are begun at once must not both take the last room.
    const others = [...this.#reserved];
    // What another fetch brings is part of its own reservation.
    for (const source of missing.keys()) if (others.some(({ sources }) => sources.has(source))) missing.delete(source);
    const needed = [...missing.values()].reduce((sum, bytes) => sum + bytes, 0);
    const promised = others.reduce((sum, other) => sum + other.leftBytes(), 0);
    if (free - reserveBytes - promised < needed) {
      const others = promised === 0 ? "" : `, and ${promised} are for the models that are being fetched`;
      const sum = `${needed} bytes are needed and ${free} are free, of which ${reserveBytes} stay free${others}`;
      throw new FetchError("NoSpace", `${ref} does not fit on the disk of ${store.root}: ${sum}`);
    }
    const { receivedBytes: before } = progress;
    const reservation: Reservation = {
      sources: new Set(missing.keys()),
      leftBytes: () =>
        Math.max(0, Math.min(totalBytes - progress.bytesDone, needed - (progress.receivedBytes - before))),
    };
    this.#reserved.add(reservation);
    return { [Symbol.dispose]: () => void this.#reserved.delete(reservation) };
  }

  /** The bytes of a file that the disk has: all of them in the store, or a part of them in its partial file. */
  async #presentBytes(content: Content): Promise<number> {
    const { store } = this.#options;
    const { source, sizeBytes } = content;
    const directory = store.partialDirectory(source);
    const known = content.sha256 === undefined ? await readPartial(directory) : undefined;
    const isKnown = known !== undefined && isSameContent(known.content, content);
    const sha256 = content.sha256 ?? (isKnown ? known.digest : undefined);
    if (sha256 !== undefined && (await store.hasBlob({ sha256, sizeBytes }))) return sizeBytes;
    // A partial file is sparse: its length is more than the space that it uses.
    const data = await stat(join(directory, "data")).catch(() => undefined);
    return (data?.blocks ?? 0) * 512;
  }
}

async function systemFreeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}
