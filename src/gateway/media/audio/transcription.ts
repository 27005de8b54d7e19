import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { ApiError } from "../../../api/errors.ts";
import { boundaryOf, MultipartError, MultipartParser, type MultipartPart } from "../../../lib/multipart.ts";
import { release } from "../../../lib/release.ts";
import { Spool } from "../../../lib/spool.ts";
import { discard, idleTimeoutMs, tooLarge, tooSlow } from "../../http/body.ts";
import { diskFailure } from "../../http/disk-failure.ts";
import type { UploadLimits } from "./upload-limits.ts";
import { checkFields, defaultFileName, escaped, invalidField, PartNames, readField } from "./transcription-fields.ts";

/** The form for the engine. */
export interface ForwardedUpload {
  /** `content-length` only where the whole upload has arrived; otherwise it is sent in chunks. */
  readonly headers: { readonly "content-type": string; readonly "content-length"?: number };
  /**
   * Throws an ApiError when the upload turns out to be broken: the engine's request must be aborted then. A chunk is
   * valid until the next read.
   */
  readonly body: AsyncIterable<Buffer>;
}

/** A transcription request whose model is known and whose file may still be arriving. */
export interface Transcription {
  readonly model: string;
  /** The text fields so far, without `model`. */
  readonly fields: ReadonlyMap<string, string>;
  /** Aborted, with an ApiError as its reason, once the upload is broken or its client has disconnected. */
  readonly broken: AbortSignal;
  /** The form for the engine, with the engine's own name for the model. To be called once. */
  forward(served: string): ForwardedUpload;
  /** Releases memory and file. To be called in the end, after any outcome. Idempotent. */
  discard(): Promise<void>;
}

const fieldLimitBytes = 65_536;
/** The memory of an upload; further bytes go to a file. */
const spoolMemoryBytes = 262_144;

/**
 * Reads a multipart upload without keeping the file in memory. Resolves as soon as `model` is known, wherever it
 * stands, and the file has begun: a form without a file must not load a model. The rest is read on meanwhile, whether or
 * not the engine is there to take it, so that a client which leaves is noticed while its request is held or queued.
 *
 *   client ─▶ parser ─▶ spool ───────────────▶ forward(served): model first, then the spool ─▶ engine
 *                        256 KiB of memory, beyond that a nameless file, at most bodyLimitBytes
 *
 * A file that comes before `model` therefore waits in the spool; one that comes after it and whose engine is ready
 * passes through memory. Rejects with ApiError `dispatch.unsupported_media_type`, `_invalid_request`,
 * `_missing_model` or `_payload_too_large`, or `system.overloaded` where memory or disk for uploads is used up.
 */
export async function openTranscription(request: IncomingMessage, limits: UploadLimits): Promise<Transcription> {
  const type = request.headers["content-type"] ?? "";
  if (!/^multipart\/form-data\b/i.test(type)) {
    throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be multipart/form-data" });
  }
  if ((request.headers["content-encoding"] ?? "identity") !== "identity") {
    throw new ApiError("dispatch.unsupported_media_type", { message: "an upload must not be compressed" });
  }
  const boundary = boundaryOf(type);
  if (boundary === undefined) throw broken("the content type names no boundary");
  if (Number(request.headers["content-length"] ?? 0) > limits.bodyLimitBytes) throw tooLarge(limits.bodyLimitBytes);
  limits.charge.take(spoolMemoryBytes);
  const upload = new Upload(request, boundary, limits);
  try {
    await upload.begun;
    return upload;
  } catch (error) {
    await upload.discard();
    throw error;
  }
}

class Upload implements Transcription {
  model = "";
  readonly fields = new Map<string, string>();
  readonly #request: IncomingMessage;
  readonly #limitBytes: number;
  readonly #parser: MultipartParser;
  readonly #spool: Spool;
  readonly #boundary = `berth-${randomBytes(16).toString("hex")}`;
  readonly #begun = Promise.withResolvers<void>();
  readonly #broken = new AbortController();
  readonly #idleTimer: NodeJS.Timeout;
  #size = 0;
  #part: MultipartPart | undefined;
  readonly #names = new PartNames();
  #field: Buffer[] = [];
  #fieldBytes = 0;
  #hasFile = false;
  #isOver = false;
  /** Bytes from the parser for the spool, of the present chunk. */
  #ready: Buffer[] = [];
  #writing: Promise<void> | undefined;

  constructor(request: IncomingMessage, boundary: string, limits: UploadLimits) {
    const { bodyLimitBytes, spoolDir, spooled, idleTimeoutMs: timeoutMs = idleTimeoutMs } = limits;
    this.#request = request;
    this.#idleTimer = setTimeout(() => this.#fail(tooSlow()), timeoutMs).unref();
    this.#limitBytes = bodyLimitBytes;
    this.#spool = new Spool({ dir: spoolDir, memoryBytes: spoolMemoryBytes, disk: spooled });
    this.#parser = new MultipartParser(boundary, {
      onPart: (part) => this.#onPart(part),
      onData: (bytes) => this.#onData(bytes),
      onPartEnd: () => this.#onPartEnd(),
    });
    request.on("data", this.#onChunk);
    request.once("end", this.#onEnd);
    request.once("close", this.#onClose);
    request.on("error", this.#onClose);
  }

  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  get broken(): AbortSignal {
    return this.#broken.signal;
  }

  forward(served: string): ForwardedUpload {
    const first = Buffer.concat([this.#head({ name: "model" }), Buffer.from(`${served}\r\n`)]);
    const spool = this.#spool;
    const body = (async function* () {
      yield first;
      yield* spool.read();
    })();
    const type = { "content-type": `multipart/form-data; boundary=${this.#boundary}` };
    return {
      headers: spool.isEnded ? { ...type, "content-length": first.length + spool.sizeBytes } : type,
      body,
    };
  }

  async discard(): Promise<void> {
    this.#stop();
    await this.#spool.close();
  }

  readonly #onChunk = (chunk: Buffer): void => {
    this.#idleTimer.refresh();
    try {
      this.#size += chunk.length;
      if (this.#size > this.#limitBytes) throw tooLarge(this.#limitBytes);
      this.#parser.push(chunk);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#store(chunk);
  };

  readonly #onEnd = (): void => {
    // The last chunk may still be on its way to the disk.
    void (this.#writing ?? Promise.resolve()).then(() => {
      if (this.#isOver) return;
      try {
        this.#parser.end();
        if (this.model === "")
          throw new ApiError("dispatch.missing_model", { details: { path: ["model"], message: "is required" } });
        if (!this.#hasFile) throw invalidField("file", "is required, and must not be empty");
        // The upload continues: these bytes too may find no room.
        this.#stopListening();
        this.#ready.push(Buffer.from(`--${this.#boundary}--\r\n`));
        this.#store();
      } catch (error) {
        this.#fail(error);
        return;
      }
      void (this.#writing ?? Promise.resolve()).then(() => {
        if (!this.#isOver) this.#spool.end();
      });
    });
  };

  readonly #onClose = (): void => {
    if (!this.#request.complete) this.#fail(broken("the body ended early"));
  };

  /**
   * Passes the parser's bytes to the spool, and releases the chunk's memory: 25 MB would otherwise wait for garbage
   * collection. Reads no more until the spool has them all, so that memory is bounded by one chunk.
   */
  #store(chunk?: Buffer): void {
    const ready = this.#ready.splice(0);
    const only = ready.length === 1 ? ready[0] : undefined;
    const bytes = only ?? Buffer.concat(ready);
    const writing = this.#spool.write(bytes);
    if (writing === undefined) {
      if (chunk !== undefined) release(chunk);
      return;
    }
    this.#request.pause();
    this.#writing = writing.then(
      () => {
        if (chunk !== undefined) release(chunk);
        this.#writing = undefined;
        // The sender is not idle while a slow disk is waited for.
        if (!this.#isOver) this.#idleTimer.refresh();
        this.#request.resume();
      },
      (error: unknown) => this.#fail(error),
    );
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#stop();
    if (!this.#request.complete) discard(this.#request);
    const failure = toUploadError(error);
    this.#begun.reject(failure);
    this.#spool.fail(failure);
    this.#broken.abort(failure);
  }

  #stop(): void {
    this.#isOver = true;
    this.#stopListening();
  }

  #stopListening(): void {
    clearTimeout(this.#idleTimer);
    this.#request.off("data", this.#onChunk);
    this.#request.off("end", this.#onEnd);
    this.#request.off("close", this.#onClose);
  }

  #onPart(part: MultipartPart): void {
    this.#part = part;
    this.#names.add(part.name);
    if (part.name !== "file") {
      if (part.filename !== undefined)
        throw invalidField(part.name, "is no field for a file: the audio belongs in file");
      this.#field = [];
      this.#fieldBytes = 0;
      return;
    }
    this.#ready.push(this.#head({ ...part, filename: part.filename || defaultFileName(part.contentType) }));
  }

  #onData(bytes: Buffer): void {
    if (this.#part?.name === "file") {
      this.#hasFile = true;
      if (this.model !== "") this.#begun.resolve();
      this.#ready.push(bytes);
      return;
    }
    this.#fieldBytes += bytes.length;
    if (this.#fieldBytes > fieldLimitBytes)
      throw invalidField(this.#part?.name ?? "", `must be at most ${fieldLimitBytes} bytes long`);
    this.#field.push(Buffer.from(bytes));
  }

  #onPartEnd(): void {
    const name = this.#part?.name ?? "";
    if (name === "file") {
      this.#ready.push(lineEnd);
      return;
    }
    const value = Buffer.concat(this.#field);
    this.#field = [];
    if (!isUtf8(value)) throw invalidField(name, "must be text in UTF-8");
    const text = value.toString();
    if (name === "model") {
      if (text === "") throw invalidField("model", "must be a name");
      this.model = text;
      if (this.#hasFile) this.#begun.resolve();
      return;
    }
    const forEngine = readField(name, text);
    const before = this.fields.get(name);
    // A list is a field that occurs several times.
    this.fields.set(name, before !== undefined && name.endsWith("[]") ? `${before},${text}` : text);
    checkFields(this.fields);
    this.#ready.push(this.#head({ name }), Buffer.from(forEngine), lineEnd);
  }

  #head({ name, filename, contentType }: { name: string } & Partial<MultipartPart>): Buffer {
    const file = filename === undefined ? "" : `; filename="${escaped(filename)}"`;
    const type = contentType === undefined ? "" : `\r\ncontent-type: ${contentType}`;
    return Buffer.from(
      `--${this.#boundary}\r\ncontent-disposition: form-data; name="${escaped(name)}"${file}${type}\r\n\r\n`,
    );
  }
}

const lineEnd = Buffer.from("\r\n");

function broken(message: string): ApiError {
  return new ApiError("dispatch.invalid_request", { message });
}

function toUploadError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof MultipartError) return broken(error.message);
  return diskFailure(error, "hold the upload");
}
