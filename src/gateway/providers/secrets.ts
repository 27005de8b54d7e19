import type { SecretSource } from "../../api/upstream.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { secretFile, type SecretPlaces } from "../../lib/secret-file.ts";
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
/** The maximum age of a value that the API server gave, and the shortest time between two attempts. */
const clusterFreshMs = 10_000;
const limitBytes = 16_384;

export interface SecretOptions {
  readonly env: NodeJS.ProcessEnv;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** Reads a key of a Secret of the cluster; absent: this gateway runs in none. Rejects with the reason. */
  readonly readSecret?: ReadSecret | undefined;
  /** The files that a manifest may name; absent: any but a service account's. */
  readonly places?: SecretPlaces | undefined;
}

/** Undefined: there is no such Secret, or no such key in it. */
export type ReadSecret = (name: string, key: string) => Promise<string | undefined>;

/** A key that is read when it is needed; a file at most once a second. Reading throws SecretError. */
export function openSecret(source: SecretSource, options: SecretOptions): Secret {
  const { env, now, readSecret, places } = options;
  if ("env" in source) {
    const what = `the environment variable ${source.env}`;
    return {
      read() {
        const value = env[source.env];
        if (value === undefined) throw new SecretError(`${what} is not set`);
        return checked(value, what);
      },
    };
  }
  if ("file" in source) {
    const load = async (): Promise<string> => await textOf(source.file, places);
    return new KeptSecret(`the file ${source.file}`, load, { now, freshMs });
  }
  const { name, key } = source.secretKeyRef;
  const what = `key ${key} of Secret ${name}`;
  if (readSecret === undefined)
    return {
      read() {
        throw new SecretError(`${what}: there is no cluster here; use env or file`);
      },
    };
  const load = async (): Promise<string> => {
    const value = await readSecret(name, key);
    if (value === undefined) throw new SecretError(`${what} does not exist`);
    return value;
  };
  return new KeptSecret(what, load, { now, freshMs: clusterFreshMs });
}

/** A value that is loaded when it is needed and older than `freshMs`. */
class KeptSecret implements Secret {
  readonly #what: string;
  readonly #load: () => Promise<string>;
  readonly #now: () => number;
  readonly #freshMs: number;
  #found: string | SecretError | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(
    what: string,
    load: () => Promise<string>,
    { now, freshMs: maxAgeMs }: { readonly now: () => number; readonly freshMs: number },
  ) {
    this.#what = what;
    this.#load = load;
    this.#now = now;
    this.#freshMs = maxAgeMs;
  }

  read(): string | Promise<string> {
    if (this.#reading !== undefined) return this.#reading;
    if (this.#found !== undefined && this.#now() - this.#readAt < this.#freshMs) {
      if (typeof this.#found === "string") return this.#found;
      throw this.#found;
    }
    this.#reading = this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #read(): Promise<string> {
    this.#readAt = this.#now();
    try {
      this.#found = checked(await this.#load(), this.#what);
    } catch (error) {
      // The last value counts while the API server does not answer. After a refusal no value counts.
      const isFinal = error instanceof SecretError || errorStatus(error) === 403;
      if (isFinal || typeof this.#found !== "string")
        this.#found =
          error instanceof SecretError
            ? error
            : new SecretError(`${this.#what} cannot be read: ${errorMessage(error)}`);
    }
    if (typeof this.#found === "string") return this.#found;
    throw this.#found;
  }
}

function errorStatus(error: unknown): unknown {
  return error instanceof Error && "status" in error ? error.status : undefined;
}

/** Reads the file by its name each time: Kubernetes and secret stores swap links. Rejects with SecretError. */
async function textOf(path: string, places: SecretPlaces | undefined): Promise<string> {
  try {
    return await readSmallText(await secretFile(path, places), limitBytes);
  } catch (error) {
    throw new SecretError(unreadable(path, error));
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
