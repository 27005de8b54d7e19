import type { z } from "zod";
import { knownPart } from "../api/known-part.ts";
import { Subscribers } from "../lib/subscribers.ts";
import type { DocumentsOptions, OpenDocuments } from "./documents.ts";

/** A set of JSON documents of one form; `sets.ts` has them all. */
export interface DeclaredSet<T> extends Pick<DocumentsOptions<T>, "isLasting" | "isKept" | "mode"> {
  /** A directory of the state, or an object `berth-SET` of an API server. */
  readonly set: string;
  readonly schema: z.ZodType<T>;
  /** Any text. A document under another name than this is not read. */
  readonly nameOf: (value: T) => string;
  /** Values of a later version are left out (DECISIONS 27); otherwise a document that has one is not read. */
  readonly isTolerant?: boolean;
}

/** The documents of one set, as operator and gateways share them. */
export interface DocumentSet<T> extends AsyncDisposable {
  get(name: string): T | undefined;
  list(): readonly T[];
  /** The document of a set that has one alone. */
  only(): T | undefined;
  /** Resolves once it is stored, and `get` gives it. Rejects for a value of another form, unless the set is kept. */
  put(value: T): Promise<void>;
  /** With `isSame`: removes the document that it accepts, and never one that has replaced it. */
  remove(name: string, isSame?: (value: T) => boolean): Promise<void>;
  /** Calls `onChange` with the names of the documents that came, changed or went. */
  watch(onChange: (names: readonly string[]) => void): Disposable;
}

export async function openSet<T>(open: OpenDocuments, declared: DeclaredSet<T>): Promise<DocumentSet<T>> {
  const { set, schema, nameOf, isTolerant = false, ...options } = declared;
  const subscribers = new Subscribers<[names: readonly string[]]>();
  const documents = await open<T>(set, {
    ...options,
    parse: (value) => (isTolerant ? knownPart(schema, value) : schema.safeParse(value).data),
    onChange: (names) => subscribers.notify(names.map(unspelled)),
  });
  const list = (): readonly T[] =>
    [...documents.values()].flatMap(([name, value]) => (name === spelled(nameOf(value)) ? [value] : []));
  return {
    get(name) {
      const value = documents.get(spelled(name));
      return value !== undefined && nameOf(value) === name ? value : undefined;
    },
    list,
    only: () => list()[0],
    async put(value) {
      // A status of a thousand slots takes milliseconds to check, and is written again and again.
      if (options.isKept !== true) schema.parse(value);
      await documents.put(spelled(nameOf(value)), value);
    },
    remove: (name, isSame) => documents.delete(spelled(name), isSame),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => documents[Symbol.asyncDispose](),
  };
}

/** The name of a file and of an entry has letters, digits, dashes, dots and underscores, and begins with no dot. */
function spelled(name: string): string {
  if (/^[A-Za-z0-9-][A-Za-z0-9.-]*$/.test(name)) return name;
  const bytes = [...Buffer.from(name)].map((byte, at) => {
    const letter = String.fromCharCode(byte);
    const isPlain = /[A-Za-z0-9-]/.test(letter) || (letter === "." && at > 0);
    return isPlain ? letter : `_${byte.toString(16).padStart(2, "0")}`;
  });
  return bytes.join("");
}

function unspelled(name: string): string {
  const bytes = name.matchAll(/_([0-9a-f]{2})|[^_]/g);
  return Buffer.from(
    [...bytes].map(([letter, hex]) => (hex === undefined ? letter.charCodeAt(0) : parseInt(hex, 16))),
  ).toString();
}
