import { stat } from "node:fs/promises";
import type { SecretSource } from "../../api/upstream.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readSmallText, UnfitFile } from "../../lib/small-file.ts";

/** A key is missing or cannot be used. The message names the variable or file, never the value; it is for the log. */
export class SecretError extends Error {
  override readonly name = "SecretError";
}

export interface Secret {
  /** The present value, synchronously unless a file is due for a check. Throws, or rejects with, SecretError. */
  read(): string | Promise<string>;
}

/** The maximum age of a file's value. */
const freshMs = 1000;
const limitBytes = 16_384;

/** A key that is read when it is needed; a file at most once a second. Reading throws SecretError. */
export function openSecret(source: SecretSource, options: { env: NodeJS.ProcessEnv; now: () => number }): Secret {
  if ("env" in source) {
    const what = `the environment variable ${source.env}`;
    return {
      read() {
        const value = options.env[source.env];
        if (value === undefined) throw new SecretError(`${what} is not set`);
        return checked(value, what);
      },
    };
  }
  if ("file" in source) return new FileSecret(source.file, options.now);
  const { name, key } = source.secretKeyRef;
  const problem = `key ${key} of Secret ${name}: secretKeyRef is not supported for providers; use env, or mount the Secret and use file`;
  return {
    read() {
      throw new SecretError(problem);
    },
  };
}

/** Detects changes of a file by its identity, links included: Kubernetes and secret stores swap links. */
class FileSecret implements Secret {
  readonly #path: string;
  readonly #now: () => number;
  #stamp = "";
  #found: string | SecretError | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(path: string, now: () => number) {
    this.#path = path;
    this.#now = now;
  }

  read(): string | Promise<string> {
    if (this.#reading !== undefined) return this.#reading;
    if (this.#found !== undefined && this.#now() - this.#readAt < freshMs) {
      if (typeof this.#found === "string") return this.#found;
      throw this.#found;
    }
    this.#reading = this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #read(): Promise<string> {
    this.#readAt = this.#now();
    try {
      const { ino, size, mtimeNs, ctimeNs } = await stat(this.#path, { bigint: true });
      const stamp = `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp !== this.#stamp || typeof this.#found !== "string") {
        this.#stamp = stamp;
        this.#found = checked(await readSmallText(this.#path, limitBytes), `the file ${this.#path}`);
      }
      return this.#found;
    } catch (error) {
      this.#found = error instanceof SecretError ? error : new SecretError(unreadable(this.#path, error));
      throw this.#found;
    }
  }
}

function unreadable(path: string, error: unknown): string {
  if (error instanceof UnfitFile) return `the file ${path} holds no key: ${error.message}`;
  return errorCode(error) === "ENOENT"
    ? `the file ${path} does not exist`
    : `the file ${path} cannot be read (${errorCode(error) ?? "unknown error"})`;
}

/** Files and shells often end with a line end, which is no part of a key. */
function checked(value: string, what: string): string {
  const key = value.trim();
  if (key === "") throw new SecretError(`${what} is empty`);
  if (!/^[\x20-\x7e]+$/.test(key)) throw new SecretError(`${what} holds characters that no header can carry`);
  return key;
}
