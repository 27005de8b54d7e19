import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { writeInKeptDirectory } from "../lib/atomic-file.ts";
import { JsonDirectory } from "../lib/json-directory.ts";
import { readPlainJson } from "../lib/small-file.ts";

/** JSON documents by name, as every store keeps them: files of a directory, or entries of an object of an API server. */
export interface Documents<T> extends AsyncDisposable {
  get(name: string): T | undefined;
  values(): Iterable<readonly [name: string, value: T]>;
  /** Reads what is stored by now, before the change of it is seen. */
  refresh(): Promise<void>;
  /** Resolves once it is stored, and `get` gives it. */
  put(name: string, value: T): Promise<void>;
  /** With `isSame`: deletes the document that it accepts, and never one that has replaced it. */
  delete(name: string, isSame?: (value: T) => boolean): Promise<void>;
}

export interface DocumentsOptions<T> {
  /** Undefined: not to be read. The last value that could be read stays. */
  readonly parse: (value: unknown) => T | undefined;
  /** The names of the documents that changed or are gone. */
  readonly onChange: (names: readonly string[]) => void;
  /** A document survives a power cut once it is stored. An API server's always does. */
  readonly isLasting?: boolean;
  /** This process alone writes these: where somebody deletes a file, it is written again. */
  readonly isKept?: boolean;
  /** Of a file; absent: for all to read. */
  readonly mode?: number;
}

/** How a store opens a set of documents. */
export type OpenDocuments = <T>(set: string, options: DocumentsOptions<T>) => Promise<Documents<T>>;

/** Each set is a directory within `stateDir`. */
export function documentsInFiles(stateDir: string): OpenDocuments {
  return async (set, { parse, onChange, isLasting = false, isKept = false, mode }) => {
    const path = join(stateDir, set);
    const fileOf = (name: string): string => join(path, `${name}.json`);
    const kept = new Map<string, () => Promise<void>>();
    const directory = await JsonDirectory.open(path, {
      parse,
      onChange(names) {
        onChange(names);
        // Where that fails, the next change is written as always.
        for (const name of names)
          if (directory.get(name) === undefined)
            void kept
              .get(name)?.()
              .catch(() => undefined);
      },
    });
    const write = async (name: string, value: unknown): Promise<void> => {
      const options = { fsync: isLasting, ...(mode === undefined ? {} : { mode }) };
      await writeInKeptDirectory(fileOf(name), JSON.stringify(value), options);
      await directory.scan();
    };
    return {
      get: (name) => directory.get(name),
      values: () => directory.values(),
      refresh: () => directory.scan(),
      async put(name, value) {
        if (isKept) kept.set(name, () => write(name, value));
        await write(name, value);
      },
      async delete(name, isSame) {
        if (isSame === undefined) {
          kept.delete(name);
          await rm(fileOf(name), { force: true });
        } else {
          // In one turn: a document that another process writes at any other moment stays.
          const value = parse(readPlainJson(fileOf(name)));
          if (value !== undefined && isSame(value)) rmSync(fileOf(name), { force: true });
        }
        await directory.scan();
      },
      [Symbol.asyncDispose]() {
        kept.clear();
        return directory[Symbol.asyncDispose]();
      },
    };
  };
}
