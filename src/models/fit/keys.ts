import type { GgufValue } from "../gguf-reader.ts";
import type { UsedKey } from "../gguf-types.ts";

/** Reads the keys of one architecture. */
export class Keys {
  readonly #values: ReadonlyMap<string, GgufValue>;
  readonly #prefix: string;

  constructor(values: ReadonlyMap<string, GgufValue>, architecture: string) {
    this.#values = values;
    this.#prefix = architecture;
  }

  value(key: UsedKey): GgufValue | undefined {
    return this.#values.get(`${this.#prefix}.${key}`);
  }

  /** Reads a count: a whole number that is not negative. */
  number(key: UsedKey): number | undefined {
    const value = this.value(key);
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  }

  /** Reads the value of one layer if layers differ, or the value of all layers. */
  at(key: UsedKey, layer: number): number | undefined {
    const value = this.value(key);
    if (!Array.isArray(value)) return this.number(key);
    const item: unknown = value[layer];
    return typeof item === "number" ? item : undefined;
  }
}
