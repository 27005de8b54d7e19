/** One part of a form, as its sender writes it. */
export interface FormPart {
  readonly name: string;
  readonly filename?: string;
  readonly type?: string;
  readonly value: string | Buffer;
}

/** A `multipart/form-data` body, written out byte for byte. */
export function formBody(boundary: string, parts: readonly FormPart[]): Buffer {
  const pieces = parts.flatMap(({ name, filename, type, value }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? "" : `; filename="${filename}"`}\r\n` +
        `${type === undefined ? "" : `Content-Type: ${type}\r\n`}\r\n`,
    ),
    Buffer.from(value),
    Buffer.from("\r\n"),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

/** The bytes cut at these places, taken modulo its length. */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [0, ...places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}
