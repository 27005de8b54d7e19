import { stat } from "node:fs/promises";
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
  if ("file" in source) return new FileSecret(source.file, options);
  const { name, key } = source.secretKeyRef;
  const what = `key ${key} of Secret ${name}`;
  const { readSecret } = options;
  if (readSecret !== undefined) return new ClusterSecret(what, () => readSecret(name, key), options.now);
  return {
    read() {
      throw new SecretError(`${what}: there is no cluster here; use env or file`);
    },
  };
}

/** A key of a Secret of the cluster, kept for some seconds. While the API server does not answer the last value counts. */
class ClusterSecret implements Secret {
  readonly #what: string;
  readonly #load: () => Promise<string | undefined>;
  readonly #now: () => number;
  #found: string | SecretError | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(what: string, load: () => Promise<string | undefined>, now: () => number) {
    this.#what = what;
    this.#load = load;
    this.#now = now;
  }

  read(): string | Promise<string> {
    if (this.#reading !== undefined) return this.#reading;
    if (this.#found !== undefined && this.#now() - this.#readAt < clusterFreshMs) {
      if (typeof this.#found === "string") return this.#found;
      throw this.#found;
    }
    this.#reading = this.#read().finally(() => (this.#reading = undefined));
    return this.#reading;
  }

  async #read(): Promise<string> {
    this.#readAt = this.#now();
    try {
      const value = await this.#load();
      if (value === undefined) throw new SecretError(`${this.#what} does not exist`);
      this.#found = checked(value, this.#what);
    } catch (error) {
      const refused = error instanceof SecretError || errorStatus(error) === 403;
      if (refused || typeof this.#found !== "string")
        this.#found =
          error instanceof SecretError
            ? error
            : new SecretError(`${this.#what} cannot be read: ${errorMessage(error)}`);
      if (this.#found instanceof SecretError) throw this.#found;
    }
    return this.#found;
  }
}

function errorStatus(error: unknown): unknown {
  return error instanceof Error && "status" in error ? error.status : undefined;
}

/** Detects changes of a file by its identity, links included: Kubernetes and secret stores swap links. */
class FileSecret implements Secret {
  readonly #path: string;
  readonly #now: () => number;
  readonly #places: SecretPlaces | undefined;
  #stamp = "";
  #found: string | SecretError | undefined;
  #readAt = -Infinity;
  #reading: Promise<string> | undefined;

  constructor(path: string, { now, places }: { now: () => number; places?: SecretPlaces | undefined }) {
    this.#path = path;
    this.#now = now;
    this.#places = places;
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
      const path = await secretFile(this.#path, this.#places);
      const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
      const stamp = `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
      if (stamp !== this.#stamp || typeof this.#found !== "string") {
        this.#stamp = stamp;
        this.#found = checked(await readSmallText(path, limitBytes), `the file ${this.#path}`);
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
