import type { Evidence } from "../api/hardware.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import type { Machine, NodeEntry } from "./machine.ts";

/**
 * Reads the sources of one part of a report and records them as evidence. A missing source is absent; an unreadable
 * source is recorded, never thrown.
 */
export class EvidenceReader {
  readonly evidence: Evidence[] = [];
  readonly #machine: Machine;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  note(source: string, says: string): void {
    this.evidence.push({ source, says });
  }

  /** Without blanks at its ends; undefined for a missing or empty file. */
  async text(path: string): Promise<string | undefined> {
    const text = await this.#read(path, this.#machine.text(path), undefined);
    // Device trees end their texts with a NUL.
    return text?.replaceAll("\0", "").trim() || undefined;
  }

  async names(path: string): Promise<readonly string[]> {
    return await this.#read(path, this.#machine.names(path), []);
  }

  async node(path: string): Promise<NodeEntry | undefined> {
    return await this.#read(path, this.#machine.node(path), undefined);
  }

  /** A whole number, from a file that holds nothing else. */
  async count(path: string): Promise<number | undefined> {
    return countIn(await this.text(path));
  }

  /** The last part of a link's target. */
  async linked(path: string): Promise<string | undefined> {
    return (await this.#machine.target(path))?.split("/").at(-1);
  }

  async target(path: string): Promise<string | undefined> {
    return await this.#machine.target(path);
  }

  async #read<T>(path: string, reading: Promise<T>, otherwise: T): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      this.note(path, `cannot be read: ${errorCode(error) ?? errorMessage(error)}`);
      return otherwise;
    }
  }
}

/**
 * A whole number of units, converted to the base unit; undefined for a text without a number, or beyond exact numbers.
 */
export function countIn(text: string | undefined, unit = 1): number | undefined {
  const value = text !== undefined && /^\d+$/.test(text) ? Number(text) * unit : undefined;
  return value !== undefined && Number.isSafeInteger(value) ? value : undefined;
}

/** `key: value` lines; the first of a key wins. */
export function fieldsOf(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split("\n")) {
    const at = line.indexOf(":");
    const key = line.slice(0, Math.max(at, 0)).trim();
    if (key !== "" && !fields.has(key)) fields.set(key, line.slice(at + 1).trim());
  }
  return fields;
}
