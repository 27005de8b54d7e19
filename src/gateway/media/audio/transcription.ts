import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { addAbortSignal, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { BusboyInstance } from "@fastify/busboy";
import { ApiError } from "../../../api/errors.ts";
import { errorMessage } from "../../../lib/error-code.ts";
import type { StoredBody } from "../../../lib/exchange.ts";
import { GatheredBytes } from "../../../lib/gathered-bytes.ts";
import { release } from "../../../lib/release.ts";
import { unlessAborted } from "../../../lib/on-abort.ts";
import { toApiError } from "../../http/answer.ts";
import { discard, idleTimeoutMs, tooLarge, tooSlow, type BodyLimits } from "../../http/body.ts";
import type { BufferBudget } from "../../slots/budget.ts";
import { SpooledFile } from "./spooled-file.ts";
import { checkFields, defaultFileName, escaped, invalidField, PartNames, readField } from "./transcription-fields.ts";

/** The limits of an upload, with their counters. */
export interface UploadLimits extends BodyLimits {
  /** Bytes on disk are counted here. */
  readonly spooled: BufferBudget;
  /** The directory of the files of uploads. */
  readonly spoolDir: string;
  /** How long its sender may send nothing, at any stage of the upload; half a minute by default. */
  readonly idleTimeoutMs?: number;
}

const fieldLimitBytes = 65_536;
const partLimit = 100;
const headerLimitBytes = 16_384;
/** The usual memory of an upload beside its fields: chunks on their way from the socket to the file. */
const chunkBytes = 262_144;
/** A chunk that is no longer may be the parser's own memory: it keeps what may be the start of a boundary. */
const ownBytes = 256;

/**
 * Reads a form whole: its fields into memory, its file into a file without a name. Rejects with ApiError
 * `dispatch.unsupported_media_type`, `_invalid_request`, `_missing_model` or `_payload_too_large`, with `system.overloaded` where
 * memory or disk for uploads is used up, and with `system.internal` where the disk fails.
 */
export async function readForm(request: IncomingMessage, limits: UploadLimits): Promise<UploadForm> {
  try {
    const parser = await parserFor(request, limits);
    limits.charge.take(chunkBytes);
    await using stack = new AsyncDisposableStack();
    const file = stack.use(await SpooledFile.open(limits.spoolDir, limits.spooled));
    const form = new UploadForm(file, limits);
    await form.read(request, parser);
    stack.move();
    return form;
  } finally {
    if (!request.readableEnded) discard(request);
  }
}

/** A form that has been read. */
export class UploadForm {
  readonly #file: SpooledFile;
  readonly #limits: UploadLimits;
  /** The text fields in their order, with the values for the engine. */
  readonly #forEngine: { readonly name: string; value: string }[] = [];
  readonly #names = new PartNames();
  /** The text fields, with the client's values. */
  readonly fields = new Map<string, string>();
  #fileHead = "";

  constructor(file: SpooledFile, limits: UploadLimits) {
    this.#file = file;
    this.#limits = limits;
  }

  get model(): string {
    return this.fields.get("model") ?? "";
  }

  async read(request: IncomingMessage, form: BusboyInstance): Promise<void> {
    const over = new AbortController();
    const parts: Promise<void>[] = [];
    form.on("error", (error) => over.abort(error));
    form.on("partsLimit", () => form.destroy(malformed(`the form has more than ${partLimit} parts`)));
    form.on("file", (name, part, filename, _encoding, type) => {
      addAbortSignal(over.signal, part);
      const read = this.#readPart(part, { name, filename, type });
      // A disk that fails is no fault of the form.
      read.catch((error: unknown) => form.destroy(toApiError(error)));
      parts.push(read);
    });
    try {
      await this.#parse(request, form, over.signal);
      await Promise.all(parts);
    } finally {
      over.abort();
      await Promise.allSettled(parts);
    }
    if (!this.fields.has("model"))
      throw new ApiError("dispatch.missing_model", { details: { path: ["model"], message: "is required" } });
    if (this.#file.sizeBytes === 0) throw invalidField("file", "is required, and must not be empty");
  }

  /** The form for the engine: the fields in their order, with the engine's own name for the model, and then the file. */
  formFor(served: string): { readonly contentType: string; readonly body: StoredBody } {
    const boundary = `berth-${randomBytes(16).toString("hex")}`;
    const disposition = `--${boundary}\r\ncontent-disposition: form-data; name=`;
    const fields = this.#forEngine.map(
      ({ name, value }) => `${disposition}"${escaped(name)}"\r\n\r\n${name === "model" ? served : value}\r\n`,
    );
    const head = `${fields.join("")}${disposition}"file"; ${this.#fileHead}\r\n\r\n`;
    const tail = `\r\n--${boundary}--\r\n`;
    const file = this.#file;
    return {
      contentType: `multipart/form-data; boundary=${boundary}`,
      body: {
        sizeBytes: Buffer.byteLength(head) + file.sizeBytes + tail.length,
        async *read() {
          yield Buffer.from(head);
          yield* file.read();
          yield Buffer.from(tail);
        },
      },
    };
  }

  /** Releases the file. Idempotent. */
  async discard(): Promise<void> {
    await this.#file[Symbol.asyncDispose]();
  }

  async #parse(request: IncomingMessage, form: BusboyInstance, signal: AbortSignal): Promise<void> {
    const timer = setTimeout(() => form.destroy(tooSlow()), this.#limits.idleTimeoutMs ?? idleTimeoutMs).unref();
    try {
      // The parser finishes early where the last boundary is repeated, and `pipeline` does not notice.
      await Promise.race([pipeline(this.#chunks(request, timer, signal), form), once(form, "finish")]);
    } catch (error) {
      throw unreadable(error);
    } finally {
      clearTimeout(timer);
    }
  }

  async *#chunks(request: IncomingMessage, timer: NodeJS.Timeout, signal: AbortSignal): AsyncGenerator<Buffer> {
    const { bodyBytes } = this.#limits;
    const chunks: AsyncIterator<Buffer> = request.iterator({ destroyOnReturn: false });
    try {
      for (let sizeBytes = 0; ;) {
        const { value, done } = await unlessAborted(chunks.next(), signal);
        if (done === true) return;
        timer.refresh();
        sizeBytes += value.length;
        if (sizeBytes > bodyBytes) throw tooLarge(bodyBytes);
        yield value;
        // All that arrives in a turn is one chunk then: a client that sends single bytes costs no object for each.
        await nextTurn();
      }
    } finally {
      void chunks.return?.();
    }
  }

  async #readPart(part: Readable, { name, filename, type }: PartHead): Promise<void> {
    if (name === undefined) throw malformed("a part has no name");
    this.#names.add(name);
    if (name !== "file") {
      if (filename !== undefined) throw invalidField(name, "is no field for a file: the audio belongs in file");
      await this.#readField(part, name);
      return;
    }
    this.#fileHead = `filename="${escaped(filename || defaultFileName(type))}"`;
    // A part without a type is text.
    if (type !== "text/plain") this.#fileHead += `\r\ncontent-type: ${type}`;
    for await (const chunk of bytesOf(part)) {
      await this.#file.append(chunk);
      if (chunk.length > ownBytes) release(chunk);
    }
  }

  async #readField(part: Readable, name: string): Promise<void> {
    const field = { name, value: "" };
    this.#forEngine.push(field);
    const bytes = new GatheredBytes();
    for await (const chunk of bytesOf(part)) {
      bytes.add(chunk);
      if (bytes.size > fieldLimitBytes) throw invalidField(name, `must be at most ${fieldLimitBytes} bytes long`);
    }
    this.#limits.charge.take(bytes.size);
    const text = bytes.take();
    if (!isUtf8(text)) throw invalidField(name, "must be text in UTF-8");
    const value = text.toString();
    if (name === "model" && value === "") throw invalidField("model", "must be a name");
    field.value = readField(name, value);
    const before = this.fields.get(name);
    // A list is a field that occurs several times.
    this.fields.set(name, before !== undefined && name.endsWith("[]") ? `${before},${value}` : value);
    checkFields(this.fields);
  }
}

interface PartHead {
  readonly name: string | undefined;
  readonly filename: string | undefined;
  readonly type: string;
}

/** Rejects with ApiError where the header shows that the request is not to be read. Loads the parser with the first upload. */
async function parserFor({ headers }: IncomingMessage, { bodyBytes }: UploadLimits): Promise<BusboyInstance> {
  const { "content-type": type = "", "content-encoding": encoding = "identity", "content-length": length } = headers;
  if (!/^multipart\/form-data\b/i.test(type))
    throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be multipart/form-data" });
  if (encoding !== "identity")
    throw new ApiError("dispatch.unsupported_media_type", { message: "an upload must not be compressed" });
  if (Number(length ?? 0) > bodyBytes) throw tooLarge(bodyBytes);
  const { Busboy } = await import("@fastify/busboy");
  try {
    return new Busboy({
      headers: { "content-type": type },
      limits: { parts: partLimit, headerSize: headerLimitBytes },
      preservePath: true,
      // Above what it reads at once: a part that it skips would fill its buffer, and nothing would empty it.
      fileHwm: chunkBytes,
      // The bytes of a field as they came: the library would decode what is no UTF-8.
      isPartAFile: () => true,
    });
  } catch (error) {
    throw unreadable(error);
  }
}

async function* bytesOf(part: Readable): AsyncGenerator<Buffer> {
  const chunks: AsyncIterable<Buffer> = part;
  try {
    yield* chunks;
  } catch (error) {
    throw unreadable(error);
  }
}

/** An error of the parser, or of the request that it reads. */
function unreadable(error: unknown): ApiError {
  return error instanceof ApiError ? error : malformed(`the form cannot be read: ${errorMessage(error)}`);
}

function malformed(message: string): ApiError {
  return new ApiError("dispatch.invalid_request", { message });
}
