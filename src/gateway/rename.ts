const key = Buffer.from('"model"');

/**
 * Replaces the engine's name for the model by the one the client used, wherever it stands as a `"model"` value.
 * Inside a JSON text the quotes would be escaped, so nothing a model says is touched. Returns the same buffer when
 * there is nothing to replace.
 */
export class ModelRename {
  readonly #from: Buffer;
  readonly #to: Buffer;

  constructor(served: string, asked: string) {
    this.#from = Buffer.from(JSON.stringify(served));
    this.#to = Buffer.from(JSON.stringify(asked));
  }

  apply(bytes: Buffer): Buffer {
    let parts: Buffer[] | undefined;
    let copied = 0;
    let at = bytes.indexOf(key);
    while (at >= 0) {
      let value = at + key.length;
      while (bytes[value] === 0x20 || bytes[value] === 0x3a) value += 1;
      const end = value + this.#from.length;
      if (bytes.compare(this.#from, 0, this.#from.length, value, Math.min(end, bytes.length)) === 0) {
        parts ??= [];
        parts.push(bytes.subarray(copied, value), this.#to);
        copied = end;
      }
      at = bytes.indexOf(key, at + key.length);
    }
    if (parts === undefined) return bytes;
    parts.push(bytes.subarray(copied));
    return Buffer.concat(parts);
  }
}
