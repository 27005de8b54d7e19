/**
 * A DOUBLE, not whisper.cpp: it speaks the wire format of whisper.cpp's server, hears nothing, and "transcribes" every
 * file to its size and digest. Nothing about real speech or times follows from it. `--inference-path P`: where it takes
 * forms; `--load-ms N`: answers 503 until then.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { Busboy } from "@fastify/busboy";
import { json, runByHand, startServer, type Listening, type ListeningOptions } from "./wire.ts";

/**
 * `fail`: cannot process any audio; `die`: ends while it works; `hang`: never answers; `garbage`: answers with no JSON;
 * `early`: refuses before it has read the form.
 */
export type WhisperFault = "fail" | "die" | "hang" | "garbage" | "early";

export interface WhisperDoubleOptions extends ListeningOptions {
  readonly path?: string;
  /** Converts by ffmpeg: a file that it cannot decode is then a 500, otherwise a 400. */
  readonly isConverting?: boolean;
  /** How long one transcription takes; one at a time. */
  readonly workMs?: number;
  readonly loadMs?: number;
  readonly fault?: WhisperFault | undefined;
}

/** One form that came in. `isWhole` once its end was read, `isGone` when the sender hung up before the answer. */
export interface WhisperCall {
  readonly headers: IncomingMessage["headers"];
  readonly fields: Record<string, string>;
  fileBytes: number;
  fileName: string | undefined;
  isWhole: boolean;
  isGone: boolean;
}

export interface WhisperDouble extends Listening {
  readonly calls: readonly WhisperCall[];
}

interface Form extends WhisperCall {
  readonly digest: ReturnType<typeof createHash>;
  start: Buffer;
}

/** The transcript of a file. */
export function heardIn(file: Buffer): string {
  return sentence(file.length, createHash("sha256").update(file).digest("hex"));
}

function sentence(bytes: number, sha256: string): string {
  return `The file has ${bytes} bytes and the digest ${sha256.slice(0, 16)}.`;
}

/** Listens on `port` (0: any free one). Reads forms as they come and keeps no file. */
export async function startWhisperDouble(options: WhisperDoubleOptions = {}): Promise<WhisperDouble> {
  const { path = "/inference", fault, workMs = 0, loadMs = 0, isConverting = false } = options;
  const calls: Form[] = [];
  const loadedAt = performance.now() + loadMs;
  let turn: Promise<void> = Promise.resolve();

  const answer = async (form: Form, response: ServerResponse): Promise<void> => {
    if (fault === "hang") return;
    await new Promise((resolve) => setTimeout(resolve, workMs));
    if (fault === "die") return server.die();
    if (form.isGone) return;
    transcribe(form, response, isConverting, fault);
  };

  const server = await startServer((request, response) => {
    const url = request.url?.split("?")[0] ?? "/";
    if (performance.now() < loadedAt) return json(response, 503, { status: "loading model" });
    if (url === "/health") return json(response, 200, { status: "ok" });
    if (request.method !== "POST" || url !== path)
      return void response.writeHead(404, { "content-type": "text/plain" }).end(`File Not Found (${url})`);
    if (fault === "early") return refuse(response, 400, "Invalid request");
    const form = readForm(request, () => {
      turn = turn.then(() => answer(form, response));
    });
    response.once("close", () => {
      form.isGone = !response.writableFinished;
    });
    calls.push(form);
  }, options);
  return { ...server, calls };
}

function readForm(request: IncomingMessage, onWhole: () => void): Form {
  const form: Form = {
    headers: request.headers,
    fields: {},
    fileBytes: 0,
    fileName: undefined,
    isWhole: false,
    isGone: false,
    digest: createHash("sha256"),
    start: Buffer.alloc(0),
  };
  const parser = new Busboy({
    headers: { "content-type": request.headers["content-type"] ?? "" },
    isPartAFile: (name) => name === "file",
  });
  parser.on("field", (name, value) => (form.fields[name] = value));
  parser.on("file", (_name, file, filename) => {
    form.fileName = filename;
    file.on("data", (bytes: Buffer) => {
      form.fileBytes += bytes.length;
      form.digest.update(bytes);
      if (form.start.length < 16) form.start = Buffer.concat([form.start, bytes.subarray(0, 16)]);
    });
  });
  parser.on("finish", () => {
    form.isWhole = true;
    onWhole();
  });
  request.pipe(parser);
  return form;
}

function transcribe(
  form: Form,
  response: ServerResponse,
  isConverting: boolean,
  fault: WhisperFault | undefined,
): void {
  // whisper.cpp reports these two errors with status 200.
  if (form.fileName === undefined) return json(response, 200, { error: "no 'file' field in the request" });
  if (!isAudio(form.start)) {
    if (isConverting) return json(response, 500, { error: "FFmpeg conversion failed." });
    return refuse(response, 400, "Invalid request");
  }
  if (fault === "fail") return json(response, 200, { error: "failed to process audio" });
  if (fault === "garbage") return void response.writeHead(200, { "content-type": "application/json" }).end("\u0000<no");
  const text = ` ${sentence(form.fileBytes, form.digest.digest("hex"))}`;
  switch (form.fields["response_format"] ?? "json") {
    case "text":
      return void response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(`${text}\n`);
    case "srt":
      return void response
        .writeHead(200, { "content-type": "application/x-subrip" })
        .end(`1\n00:00:00,000 --> 00:00:01,000\n${text}\n\n`);
    case "vtt":
      return void response
        .writeHead(200, { "content-type": "text/vtt" })
        .end(`WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n${text}\n\n`);
    case "verbose_json":
      return json(response, 200, {
        task: "transcribe",
        language: form.fields["language"] ?? "english",
        duration: 1,
        text: `${text}\n`,
        segments: [
          {
            id: 0,
            text,
            start: 0,
            end: 1,
            temperature: Number(form.fields["temperature"] ?? 0),
            words: tokensOf(text),
          },
        ],
      });
    default:
      return json(response, 200, { text: `${text}\n` });
  }
}

/** In tokens of at most four letters, each a tenth of a second long; a blank belongs to the token after it. */
function tokensOf(text: string): object[] {
  return (text.match(/ ?\S{1,4}/g) ?? []).map((word, index) => ({
    word,
    start: index / 10,
    end: (index + 1) / 10,
    t_dtw: -1,
    probability: 0.5,
  }));
}

/** Knows a file by its first bytes only: WAV, MP3, Ogg, FLAC. */
function isAudio(start: Buffer): boolean {
  const word = start.toString("latin1", 0, 4);
  return (
    ["RIFF", "OggS", "fLaC"].includes(word) || word.startsWith("ID3") || (start[0] === 0xff && (start[1] ?? 0) >= 0xe0)
  );
}

function refuse(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "text/plain" }).end(text);
}

if (import.meta.main) {
  runByHand({
    name: "whisper",
    flags: {
      // As in whisper.cpp's launch line; without effect here.
      model: "string",
      language: "string",
      "split-on-word": "boolean",
      "inference-path": "string",
      convert: "boolean",
      "load-ms": "string",
    },
    start: ({ common, text, number }) =>
      startWhisperDouble({
        ...common,
        path: text("inference-path") ?? "/inference",
        isConverting: text("convert") !== undefined,
        loadMs: number("load-ms"),
      }),
  });
}
