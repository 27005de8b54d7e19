import { scanBody } from "../../lib/json-scan.ts";
import { parseForeign } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";

const key = Buffer.from('"model"');
const newline = 0x0a;

/**
 * Replaces the engine's model name in an answer by the client's. The engine's name is known or learnt from the first
 * answer; from then on it is found by a search for bytes. Inside a JSON text the quotes would be escaped, so the
 * model's own text is never changed. Returns the same buffer when there is nothing to replace.
 */
export class ModelRename {
  #from: Buffer;
  readonly #to: Buffer;

  constructor(served: string, requested: string) {
    this.#from = quotedName(served);
    this.#to = quotedName(requested);
  }

  /** For one JSON object. */
  whole(bytes: Buffer): Buffer {
    const renamed = this.#known(bytes);
    if (renamed !== undefined || !this.#learn(bytes)) return renamed ?? bytes;
    return this.#known(bytes) ?? bytes;
  }

  /** For whole lines of an event stream. */
  lines(bytes: Buffer): Buffer {
    const renamed = this.#known(bytes);
    if (renamed !== undefined) return renamed;
    let start = 0;
    while (start < bytes.length) {
      const end = bytes.indexOf(newline, start);
      const line = bytes.subarray(start, end < 0 ? bytes.length : end);
      const open = line.indexOf(0x7b);
      if (open >= 0 && this.#learn(line.subarray(open))) return this.#known(bytes) ?? bytes;
      start = end < 0 ? bytes.length : end + 1;
    }
    return bytes;
  }

  /** With every known name replaced; undefined when there is an unknown name that is not the client's. */
  #known(bytes: Buffer): Buffer | undefined {
    let parts: Buffer[] | undefined;
    let copied = 0;
    let isStrange = false;
    let at = bytes.indexOf(key);
    while (at >= 0) {
      let value = at + key.length;
      while (bytes[value] === 0x20 || bytes[value] === 0x3a) value += 1;
      if (startsWith(bytes, value, this.#from)) {
        parts ??= [];
        parts.push(bytes.subarray(copied, value), this.#to);
        copied = value + this.#from.length;
      } else if (bytes[value] === 0x22 && !startsWith(bytes, value, this.#to)) isStrange = true;
      at = bytes.indexOf(key, at + key.length);
    }
    if (parts === undefined) return isStrange ? undefined : bytes;
    parts.push(bytes.subarray(copied));
    return Buffer.concat(parts);
  }

  /** Takes the name from an answer's top level, or from its envelope; false without a name, or with the client's. */
  #learn(json: Buffer): boolean {
    const scanned = scanBody(json);
    if (scanned === undefined || scanned.isExcessive) return false;
    const name = scanned.modelStart < 0 ? nameWithin(json) : json.subarray(scanned.modelStart, scanned.modelEnd);
    if (name === undefined) return false;
    if (name.equals(this.#to) || name.equals(this.#from)) return false;
    this.#from = Buffer.from(name);
    return true;
  }
}

/** The first events of Messages and Responses have their answer one level deeper. */
function nameWithin(json: Buffer): Buffer | undefined {
  const event = parseForeign(json);
  if (!isRecord(event)) return undefined;
  const answer = event["message"] ?? event["response"];
  const name = isRecord(answer) ? answer["model"] : undefined;
  return typeof name === "string" ? Buffer.from(JSON.stringify(name)) : undefined;
}

/** Names are short: a loop costs less than a call into native code. */
function startsWith(bytes: Buffer, at: number, prefix: Buffer): boolean {
  if (at + prefix.length > bytes.length) return false;
  for (let index = 0; index < prefix.length; index++) if (bytes[at + index] !== prefix[index]) return false;
  return true;
}

const quotedNames = new Map<string, Buffer>();
const quotedNameLimit = 1000;

/** A model's name in JSON. Cached, since clients repeat a few names; not to be changed. */
export function quotedName(name: string): Buffer {
  let quoted = quotedNames.get(name);
  if (quoted === undefined) {
    if (quotedNames.size >= quotedNameLimit) quotedNames.clear();
    quoted = Buffer.from(JSON.stringify(name));
    quotedNames.set(name, quoted);
  }
  return quoted;
}
