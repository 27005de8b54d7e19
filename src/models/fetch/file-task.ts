/** A request to the thread for files. One answer follows each request, in order. */
export type FileQuestion =
  /** Reads `path` from the current position of the hash `id`, up to `to`. */
  | { readonly do: "advance"; readonly id: number; readonly path: string; readonly to: number }
  /**
   * Writes a block to the file with the descriptor `data`, and then the block's line to the journal with the descriptor
   * `journal`. A block at the position of the hash `id` is hashed from memory. Answers with the position of the hash.
   */
  | {
      readonly do: "write";
      readonly id: number;
      readonly data: number;
      readonly journal: number;
      readonly index: number;
      readonly block: Uint8Array;
    }
  /** Ends the hash `id`, and answers with its digest. */
  | { readonly do: "digest"; readonly id: number }
  | { readonly do: "forget"; readonly id: number }
  /**
   * Reads `path` from the current position of the hash `id`, and compares the hash at the end of each of these blocks, in
   * order, up to the first that does not match. Answers with the end of the last block that does, where the hash stays. The
   * next request of this kind goes on from `to` by what was read beyond.
   */
  | ({ readonly do: "follow"; readonly id: number; readonly to: number } & Sums)
  /** Answers with the blocks of `path` that do not match their CRC-32. */
  | ({ readonly do: "check" } & Sums);

interface Sums {
  readonly path: string;
  readonly sizeBytes: number;
  readonly blockBytes: number;
  readonly sums: readonly (readonly [index: number, sum: number])[];
}

export type FileAnswer =
  | { readonly value: string | number | readonly number[] | undefined }
  | { readonly error: string; readonly code: string | undefined };
