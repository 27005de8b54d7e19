/**
 * A DOUBLE, not Kokoro: it speaks the wire format of Kokoro-FastAPI, and its "speech" is silence with the right first
 * bytes. Nothing about real speech or times follows from it. `--chunks N`: pieces of an answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { parseJson } from "../../src/lib/json.ts";
import { isRecord } from "../../src/lib/record.ts";
import { json, readBody, runByHand, startServer, type Listening, type ListeningOptions } from "./wire.ts";

export interface KokoroDoubleOptions extends ListeningOptions {
  readonly chunks?: number;
  readonly chunkMs?: number;
  /** `fail`: 500; `die`: ends after the first piece; `hang`: never answers; `garbage`: JSON instead of audio. */
  readonly fault?: "fail" | "die" | "hang" | "garbage" | undefined;
}

export interface KokoroDouble extends Listening {
  readonly calls: readonly { readonly body: unknown; isGone: boolean }[];
}

const models = ["tts-1", "tts-1-hd", "kokoro", "gpt-4o-mini-tts"];
const kokoroVoices = ["af_bella", "af_heart", "am_adam", "bf_emma", "ef_dora", "jf_alpha", "zm_yunxi"];
const openAiVoices: Readonly<Record<string, string>> = { alloy: "am_adam", nova: "bf_emma", shimmer: "af_bella" };
const formats: Readonly<Record<string, readonly [type: string, start: Buffer]>> = {
  mp3: ["audio/mpeg", Buffer.from("ID3\u0004\u0000\u0000", "latin1")],
  opus: ["audio/opus", Buffer.from("OggS\u0000\u0002", "latin1")],
  aac: ["audio/aac", Buffer.from([0xff, 0xf1])],
  flac: ["audio/flac", Buffer.from("fLaC")],
  wav: ["audio/wav", Buffer.from("RIFF\u00ff\u00ff\u00ff\u00ffWAVEfmt ", "latin1")],
  pcm: ["audio/pcm", Buffer.alloc(0)],
};

/** The double's answer to a text: so many pieces of 480 samples of silence. */
export function spoken(format: string, chunks: number): Buffer {
  return Buffer.concat([formats[format]?.[1] ?? Buffer.alloc(0), Buffer.alloc(chunks * 960)]);
}

/** Listens on `port` (0: any free one). */
export async function startKokoroDouble(options: KokoroDoubleOptions = {}): Promise<KokoroDouble> {
  const { chunks = 4, chunkMs = 0, fault } = options;
  const calls: { body: unknown; isGone: boolean }[] = [];

  const onSpeech = (body: unknown, response: ServerResponse): void => {
    const call = { body, isGone: false };
    calls.push(call);
    response.once("close", () => {
      call.isGone = !response.writableFinished;
    });
    const asked = isRecord(body) ? body : {};
    const problem = validationProblem(asked);
    if (problem !== undefined) return json(response, 422, { detail: [problem] });
    const { model = "kokoro", voice = "af_heart", response_format: format = "mp3" } = asked;
    if (!models.includes(String(model)))
      return detail(response, 400, "invalid_model", `Unsupported model: ${String(model)}`);
    const voices = String(voice)
      .split(/[+-]/)
      .map((name) => name.replace(/\(.*\)$/, "").trim());
    const unknown = voices.find((name) => !kokoroVoices.includes(openAiVoices[name] ?? name));
    if (unknown !== undefined)
      return detail(
        response,
        400,
        "validation_error",
        `Voice '${unknown}' not found. Available voices: ${kokoroVoices.join(", ")}`,
      );
    if (fault === "hang") return;
    if (fault === "fail") return detail(response, 500, "processing_error", "phonemizer failed in /app/api/src");
    if (fault === "garbage") return json(response, 200, { error: "no audio today" });
    const [type, start] = formats[String(format)] ?? ["audio/mpeg", Buffer.alloc(0)];
    response.writeHead(200, { "content-type": type, "cache-control": "no-cache" });
    response.write(start);
    let left = chunks;
    let timer: NodeJS.Timeout | undefined;
    const tick = (): void => {
      if (left === 0) return void response.end();
      left -= 1;
      response.write(Buffer.alloc(960));
      if (fault === "die") {
        setTimeout(() => server.die(), 10);
        return;
      }
      timer = setTimeout(tick, chunkMs);
    };
    response.once("close", () => clearTimeout(timer));
    tick();
  };

  const onRequest = (request: IncomingMessage, text: string, response: ServerResponse): void => {
    const url = new URL(request.url ?? "/", "http://double");
    const key = `${request.method ?? ""} ${url.pathname}`;
    if (key === "GET /health") return json(response, 200, { status: "healthy" });
    if (key === "GET /v1/audio/voices") {
      const isOld = url.searchParams.get("legacy") === "true";
      return json(response, 200, { voices: isOld ? kokoroVoices : kokoroVoices.map((id) => ({ id, name: id })) });
    }
    if (key !== "POST /v1/audio/speech") return json(response, 404, { detail: "Not Found" });
    const body = parseJson(text);
    if (body === undefined)
      return json(response, 422, { detail: [{ type: "json_invalid", loc: ["body", 0], msg: "JSON decode error" }] });
    onSpeech(body, response);
  };

  const server = await startServer((request, response) => {
    readBody(request, (text) => onRequest(request, text, response));
  }, options);
  return { ...server, calls };
}

/** The refusal of pydantic, for the few rules that a gateway could break. */
function validationProblem({
  input,
  speed = 1,
  response_format: format = "mp3",
}: Record<string, unknown>): object | undefined {
  if (typeof input !== "string")
    return { type: "string_type", loc: ["body", "input"], msg: "Input should be a valid string" };
  if (typeof speed !== "number" || speed < 0.25 || speed > 4)
    return { type: "less_than_equal", loc: ["body", "speed"], msg: "Input should be less than or equal to 4" };
  if (!Object.hasOwn(formats, String(format)))
    return {
      type: "literal_error",
      loc: ["body", "response_format"],
      msg: "Input should be 'mp3', 'opus', 'aac', 'flac', 'wav' or 'pcm'",
    };
  return undefined;
}

function detail(response: ServerResponse, status: number, error: string, message: string): void {
  const type = status >= 500 ? "server_error" : "invalid_request_error";
  json(response, status, { detail: { error, message, type } });
}

if (import.meta.main) {
  runByHand({
    name: "kokoro",
    flags: { chunks: "string" },
    start: ({ common, text }) => startKokoroDouble({ ...common, chunks: Number(text("chunks") ?? 4) }),
  });
}
