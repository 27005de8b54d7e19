/** A request to the hash thread. One answer follows each request, in order. */
export type HashQuestion =
  /** Reads `path` from the current position of the hash `id`, up to `to`. */
  | { readonly do: "advance"; readonly id: number; readonly path: string; readonly to: number }
  /** Ends the hash `id`, and answers with its digest. */
  | { readonly do: "digest"; readonly id: number }
  | { readonly do: "forget"; readonly id: number }
  /** Answers with the blocks of `path` that do not match their CRC-32. */
  | {
      readonly do: "check";
      readonly path: string;
      readonly sizeBytes: number;
      readonly blockBytes: number;
      readonly blocks: readonly (readonly [index: number, crc: number])[];
    };

export type HashAnswer =
  | { readonly value: string | readonly number[] | undefined }
  | { readonly error: string; readonly code: string | undefined };
