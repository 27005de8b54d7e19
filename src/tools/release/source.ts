import { createHash } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname, resolve } from "node:path";
import { Readable, Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CommandError } from "../../cli/client.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { isLoopback } from "../../lib/listen-address.ts";

/** The place of a file of a release: a URL, or an absolute path. */
export type Source = URL | string;

/** Time without a byte after which a server counts as silent. */
const idleMs = 30_000;
const connectMs = 15_000;

/**
 * The place that a person or a setting has named. Throws CommandError for a URL that is neither HTTPS nor HTTP on this
 * machine.
 */
export function sourceOf(text: string): Source {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return resolve(text);
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !isAllowed(url))
    throw new CommandError(
      "update.source",
      `${text} is not an https:// address`,
      "use HTTPS, http:// on this machine, or a file",
    );
  return url;
}

function isAllowed({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname.replace(/^\[|\]$/g, "")));
}

/** A file that `name` names from there: an address, a path, or a name relative to the place's directory. */
export function besides(source: Source, name: string): Source {
  if (source instanceof URL) return sourceOf(new URL(name, source).href);
  return /^https?:\/\//i.test(name) ? sourceOf(name) : resolve(dirname(source), name);
}

/** The same place with `suffix` at the end of its path. */
export function withSuffix(source: Source, suffix: string): Source {
  if (!(source instanceof URL)) return `${source}${suffix}`;
  const url = new URL(source);
  url.pathname += suffix;
  return url;
}

/** The name of the file, for messages and for other files beside it. */
export function nameOf(source: Source): string {
  return basename(source instanceof URL ? source.pathname : source);
}

/** For messages: without the password of a URL. */
export function shown(source: Source): string {
  if (!(source instanceof URL)) return source;
  const url = new URL(source);
  url.username = url.password = url.search = "";
  return url.href;
}

/**
 * The text of a small file; undefined where there is none. Throws CommandError `update.unreachable` and `update.source`.
 * `silentMs`: shorter in tests.
 */
export async function readSmall(source: Source, limitBytes: number, silentMs = idleMs): Promise<string | undefined> {
  const opened = await open(source, limitBytes, silentMs);
  if (opened === undefined) return undefined;
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of opened.body) {
      const chunk = Buffer.from(piece);
      bytes += chunk.length;
      if (bytes > limitBytes) throw tooLong(source, limitBytes);
      pieces.push(chunk);
    }
  } catch (error) {
    throw readFailure(source, error);
  }
  return Buffer.concat(pieces).toString();
}

export interface Copied {
  readonly bytes: number;
  /** In hex, of what has been written. */
  readonly sha256: string;
}

export interface CopyOptions {
  readonly limitBytes: number;
  /** The size that the source says; undefined: it says none. Called before the first byte is written, and may throw. */
  readonly onSize?: (bytes: number | undefined) => Promise<void>;
  readonly onProgress?: (bytes: number) => void;
  /** Shorter in tests. */
  readonly silentMs?: number;
}

/** Writes the file to `path`. Throws as `readSmall` does, and the file system's error of `path`. */
export async function copyTo(source: Source, path: string, options: CopyOptions): Promise<Copied> {
  const { limitBytes, onSize, onProgress, silentMs = idleMs } = options;
  const opened = await open(source, limitBytes, silentMs);
  if (opened === undefined)
    throw new CommandError("update.unreachable", `${shown(source)} is not there`, "check the address or the path");
  try {
    await onSize?.(opened.bytes);
  } catch (error) {
    opened.body.destroy();
    throw error;
  }
  const hash = createHash("sha256");
  let bytes = 0;
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      hash.update(chunk);
      onProgress?.(bytes);
      if (bytes > limitBytes) done(tooLong(source, limitBytes));
      else done(null, chunk);
    },
  });
  const file = createWriteStream(path, { flags: "w", mode: 0o600, flush: true });
  await pipeline(pieces(source, opened.body), count, file);
  return { bytes, sha256: hash.digest("hex") };
}

/** The body, whose errors are the source's: those of the file that is written are not. */
async function* pieces(source: Source, body: Readable): AsyncGenerator<Buffer, void, undefined> {
  try {
    yield* body;
  } catch (error) {
    throw readFailure(source, error);
  }
}

interface Opened {
  readonly bytes: number | undefined;
  readonly body: Readable;
}

async function open(source: Source, limitBytes: number, silentMs: number): Promise<Opened | undefined> {
  if (!(source instanceof URL)) {
    try {
      const status = await stat(source);
      if (!status.isFile()) throw new CommandError("update.source", `${source} is no file`, "name a file");
      return { bytes: status.size, body: heard(createReadStream(source)) };
    } catch (error) {
      if (errorCode(error) === "ENOENT") return undefined;
      throw error instanceof CommandError ? error : readFailure(source, error);
    }
  }
  // Loaded here alone: it takes 70 ms.
  const { EnvHttpProxyAgent, request, interceptors } = await import("undici");
  const agent = new EnvHttpProxyAgent({
    connect: { timeout: connectMs },
    headersTimeout: silentMs,
    bodyTimeout: silentMs,
  });
  const dispatcher = agent.compose(interceptors.redirect({ maxRedirections: 5 }));
  try {
    // The connection is closed after the answer: this process may end then.
    const headers = { "user-agent": "berth", "accept-encoding": "identity" };
    // undici 7 crashes where a connection ends while it holds back a body (nodejs/undici#5360): it may read ahead, at most
    // to the limit.
    const answer = await request(source, { dispatcher, headers, reset: true, highWaterMark: limitBytes });
    heard(answer.body);
    if (answer.statusCode === 404 || answer.statusCode === 410) {
      await answer.body.dump();
      return undefined;
    }
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      throw new CommandError("update.unreachable", `${shown(source)} answered ${answer.statusCode}`, "try again later");
    }
    const length = Number(answer.headers["content-length"]);
    return { bytes: Number.isSafeInteger(length) ? length : undefined, body: answer.body };
  } catch (error) {
    throw error instanceof CommandError ? error : readFailure(source, error);
  }
}

/** The same stream, whose error ends no process: the reader may not read yet, and learns of it when it does. */
function heard<Stream extends Readable>(stream: Stream): Stream {
  return stream.on("error", () => undefined);
}

function tooLong(source: Source, limitBytes: number): CommandError {
  return new CommandError(
    "update.source",
    `${shown(source)} is longer than ${limitBytes} bytes`,
    "this is no release of Berth; check the address",
  );
}

function readFailure(source: Source, error: unknown): unknown {
  if (error instanceof CommandError) return error;
  const next = source instanceof URL ? "check the network, then try again" : "check the file";
  return new CommandError("update.unreachable", `${shown(source)} cannot be read: ${errorMessage(error)}`, next);
}
