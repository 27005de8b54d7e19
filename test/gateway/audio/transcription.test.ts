import assert from "node:assert/strict";
import { request as httpRequest, type ClientRequest } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { isRecord } from "../../../src/lib/record.ts";
import { transcriptionAnswers } from "../../../src/gateway/audio/transcription-answer.ts";
import type { Transcription } from "../../../src/gateway/audio/transcription.ts";
import { heardIn, startWhisperDouble, type WhisperDoubleOptions } from "../../doubles/whisper.ts";
import { formBody, type FormPart } from "../../support/form.ts";
import { freePort } from "../../support/free-port.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { startAudioSite, type AudioSite, type AudioSiteOptions } from "./site.ts";
import { later } from "../../support/later.ts";

const boundary = "x-boundary";
const wav = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(3000, 7)]);
const large = Buffer.concat([wav, Buffer.alloc(2_000_000, "\r\n--x-boundar")]);
/** As much as an upload keeps in memory. */
const spoolMemoryBytes = 262_144;
const field = (name: string, value: string): FormPart => ({ name, value });
const model = field("model", "stt");
const file = (value: Buffer = wav): FormPart => ({ name: "file", filename: "a.wav", type: "audio/wav", value });
const form = (...parts: readonly FormPart[]): Buffer => formBody(boundary, parts);

/** The answer to a form; `code` and `details` of the envelope, where there is one. */
async function post(site: AudioSite, body: Buffer, headers: Record<string, string> = {}) {
  const type = `multipart/form-data; boundary=${boundary}`;
  const response = await fetch(site.url, {
    method: "POST",
    body: new Uint8Array(body),
    headers: { "content-type": type, ...headers },
  });
  const text = await response.text();
  const parsed: unknown = text.startsWith("{") ? JSON.parse(text) : undefined;
  const { code, details } = isRecord(parsed) && isRecord(parsed["error"]) ? parsed["error"] : {};
  return { status: response.status, type: response.headers.get("content-type"), text, code, details };
}

/** A request whose body the test writes piece by piece. */
function opened(site: AudioSite): { request: ClientRequest; status: Promise<number | undefined> } {
  const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
  const request = httpRequest(site.url, { method: "POST", headers });
  const status = new Promise<number | undefined>((resolve) => {
    request.once("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
  return { request, status };
}

async function open(double: WhisperDoubleOptions = {}, options: Partial<AudioSiteOptions> = {}) {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await startWhisperDouble(double));
  const site = stack.use(await startAudioSite({ engine, ...options }));
  const owned = stack.move();
  return { ...site, calls: engine.calls, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

describe("a transcription", () => {
  const english = field("language", "en");
  for (const [what, parts] of [
    ["model first", [model, english, file(large)]],
    ["model last", [file(large), english, model]],
    ["fields on both sides", [english, file(large), model]],
  ] as const)
    it(`reaches the engine whole, with its own model name: ${what}`, async () => {
      await using site = await open();
      const answer = await post(site, form(...parts));
      assert.deepEqual(JSON.parse(answer.text), { text: heardIn(large) });
      const [call] = site.calls;
      assert.deepEqual([call?.fields, call?.fileName], [{ model: "whisper-served", language: "en" }, "a.wav"]);
      assert.deepEqual([site.uploads[0]?.model, ...(site.uploads[0]?.fields ?? [])], ["stt", ["language", "en"]]);
    });

  it("is sent with its length once it has arrived whole, in chunks before", async () => {
    const held = Promise.withResolvers<void>();
    await using site = await open({}, { hold: () => held.promise });
    const answer = later(post(site, form(model, file())));
    await until("the upload is there whole", () => site.requests[0]?.readableEnded);
    held.resolve();
    assert.equal((await answer).status, 200);
    assert.match(site.calls[0]?.headers["content-length"] ?? "", /^3\d{3}$/);
    const { request, status } = opened(site);
    const body = form(model, file());
    request.write(body.subarray(0, 200));
    await until("the engine has its beginning", () => site.calls.length === 2);
    assert.equal(site.calls[1]?.isWhole, false);
    request.end(body.subarray(200));
    assert.equal(await status, 200);
    assert.deepEqual([site.calls[1]?.headers["transfer-encoding"], site.calls[1]?.fileBytes], ["chunked", wav.length]);
  });

  for (const [format, type, text] of [
    ["json", "application/json", /^\{"text":"The file has 3012 bytes and the digest \w{16}\."\}$/],
    ["text", "text/plain; charset=utf-8", /^The file has 3012 bytes and the digest \w{16}\.\n$/],
    ["srt", "application/x-subrip", /^1\n00:00:00,000 --> /],
    ["vtt", "text/vtt", /^WEBVTT\n/],
    ["verbose_json", "application/json", /"segments":\[\{"id":0/],
  ] as const)
    it(`is answered as ${format}`, async () => {
      await using site = await open();
      const answer = await post(site, form(model, field("response_format", format), file()));
      assert.deepEqual([answer.status, answer.type], [200, type]);
      assert.match(answer.text, text);
    });

  it("is asked for in a language without its region, which whisper.cpp does not know", async () => {
    await using site = await open();
    for (const language of ["en-US", "pt_BR", "auto", "german"])
      await post(site, form(model, field("language", language), file()));
    const sent = site.calls.map(({ fields }) => fields["language"]);
    assert.deepEqual(sent, ["en", "pt", "auto", "german"]);
  });

  it("has the words beside the segments where they are asked for, put together from tokens", async () => {
    await using site = await open();
    const verbose = field("response_format", "verbose_json");
    const asked = ["segment", "word"].map((value) => field("timestamp_granularities[]", value));
    const answer = JSON.parse((await post(site, form(model, verbose, ...asked, file()))).text);
    assert.deepEqual(answer.words.slice(0, 4), [
      { word: "The", start: 0, end: 0.1 },
      { word: "file", start: 0.1, end: 0.2 },
      { word: "has", start: 0.2, end: 0.3 },
      { word: "3012", start: 0.3, end: 0.4 },
    ]);
    assert.equal(answer.words.map(({ word }: { word: string }) => word).join(" "), answer.text);
    const plain = await post(site, form(model, verbose, file()));
    assert.equal("words" in JSON.parse(plain.text), false);
  });

  it("is one line, where whisper.cpp ends a line after 60 letters", () => {
    const answers = transcriptionAnswers(new Map());
    const said = Buffer.from(JSON.stringify({ text: " And so, my fellow\n Americans\n" }));
    assert.deepEqual(JSON.parse(answers.answer(said).toString()), { text: "And so, my fellow Americans" });
    const refused = answers.refusal?.(500, Buffer.from("500 Internal Server Error\nstoi"));
    assert.deepEqual([refused?.status, refused?.code], [400, "dispatch.rejected"]);
    assert.equal(answers.refusal?.(500, Buffer.from("500 Internal Server Error\nbad_alloc")), undefined);
  });

  it("keeps names and values unchanged, and gives a file without a name a default name", async () => {
    await using site = await open();
    const fields = [model, field("prompt", "Grüße\r\n--x-boundar"), field("timestamp_granularities[]", "word")];
    await post(site, form(...fields, { name: "file", value: wav }));
    assert.deepEqual(site.calls[0]?.fields, {
      model: "whisper-served",
      prompt: "Grüße\r\n--x-boundar",
      "timestamp_granularities[]": "word",
    });
    await post(site, form(model, { name: "file", filename: String.raw`ü \"x\".wav`, value: wav }));
    for (const type of ["audio/webm;codecs=opus", "audio/mpeg", "audio/x-wav", "application/octet-stream"])
      await post(site, form(model, { name: "file", type, value: wav }));
    const names = site.calls.map(({ fileName }) => fileName);
    assert.deepEqual(names, ["audio", "ü %22x%22.wav", "audio.webm", "audio.mp3", "audio.wav", "audio"]);
  });

  for (const isConverting of [false, true])
    it(`of a file that is not audio is 415${isConverting ? ", also by ffmpeg" : ""}`, async () => {
      await using site = await open({ isConverting });
      const { status, code, details } = await post(site, form(model, file(Buffer.from("not audio"))));
      assert.deepEqual([status, code, details], [415, "dispatch.unsupported_media_type", { path: ["file"] }]);
    });

  const whole = form(model, file());
  const refused: readonly (readonly [what: string, body: Buffer, place?: string, code?: string])[] = [
    ["without a model", form(file()), "model", "dispatch.missing_model"],
    ["without a file", form(model), "file"],
    ["of nothing", Buffer.alloc(0)],
    ["that is JSON", Buffer.from('{"model":"stt"}')],
    ["without its end", whole.subarray(0, -10)],
    ["with an empty model", form(field("model", ""), file()), "model"],
    ["with two models", form(model, file(), field("model", "other")), "model"],
    ["with two files", form(model, file(), file()), "file"],
    ["with a file elsewhere", form(model, { ...file(), name: "audio" }), "audio"],
    ["with an unknown format", form(model, field("response_format", "xml"), file()), "response_format"],
    [
      "with OpenAI's format of speakers, at the end",
      form(model, file(), field("response_format", "diarized_json")),
      "response_format",
    ],
    ["with a language that is none", form(model, field("language", "zz"), file()), "language"],
    ["with a temperature that is none", form(model, field("temperature", "hot"), file()), "temperature"],
    ["with a temperature of nothing", form(field("temperature", " "), model, file()), "temperature"],
    ["with a huge field", form(field("prompt", "x".repeat(70_000)), model, file()), "prompt"],
    ["with a malformed part", Buffer.from(`--${boundary}\r\nnonsense\r\n\r\n`)],
  ];
  for (const [what, body, place, code = "dispatch.invalid_request"] of refused)
    it(`is refused ${what}`, async () => {
      await using site = await open();
      const answer = await post(site, body);
      assert.deepEqual([answer.status, answer.code], [400, code]);
      if (place !== undefined) assert.deepEqual(isRecord(answer.details) && answer.details["path"], [place]);
    });

  for (const [headers, status, code, body = whole] of [
    [{}, 413, "dispatch.payload_too_large", form(model, file(large))],
    [{ "content-type": "application/json" }, 415, "dispatch.unsupported_media_type"],
    [{ "content-type": "multipart/form-data" }, 400, "dispatch.invalid_request"],
    [{ "content-type": "multipart/form-data; boundary=other" }, 400, "dispatch.invalid_request"],
    [{ "content-encoding": "gzip" }, 415, "dispatch.unsupported_media_type", gzipSync(whole)],
  ] as const)
    it(`with ${JSON.stringify(headers)} is ${status} ${code}`, async () => {
      await using site = await open({}, { bodyLimitBytes: 1_000_000 });
      const answer = await post(site, body, headers);
      assert.deepEqual([answer.status, answer.code], [status, code]);
    });

  it("beyond the limit without a length is 413 too, and leaves nothing at the engine", async () => {
    await using site = await open({}, { bodyLimitBytes: 1_000_000 });
    const { request, status } = opened(site);
    request.write(form(model, file(large)).subarray(0, -10));
    assert.equal(await status, 413);
    request.destroy();
    await until("the engine is let go", () => site.calls.every(({ isGone }) => isGone));
  });

  it("whose client leaves within the upload is dropped at the engine at once", async () => {
    await using site = await open();
    const { request } = opened(site);
    request.write(form(model, file(large)).subarray(0, 500_000));
    await until("the engine has a part", () => (site.calls[0]?.fileBytes ?? 0) > 0);
    request.destroy();
    await until("the engine is let go", () => site.calls[0]?.isGone);
    await until("the site has noticed", () => site.failures[0]?.message === "the body ended early");
  });

  it("is dropped when its client leaves while it is held, although the gateway reads no byte meanwhile", async () => {
    await using site = await open({}, { hold: () => new Promise<void>(() => undefined) });
    const { request } = opened(site);
    request.write(form(model, file(large)).subarray(0, 1_500_000));
    await until("it is held", () => site.uploads.length === 1);
    request.destroy();
    await until("it is noticed", () => site.failures.length === 1);
    assert.deepEqual([site.uploads[0]?.broken.aborted, site.calls], [true, []]);
  });

  for (const [fault, status, code, message] of [
    ["fail", 502, "dispatch.upstream_failed", /failed to process audio/],
    ["garbage", 502, "dispatch.upstream_failed", /not JSON/],
    ["die", 502, "dispatch.upstream_failed", /closed the connection/],
    ["hang", 504, "dispatch.upstream_timeout", /in time/],
    ["early", 415, "dispatch.unsupported_media_type", /cannot decode/],
  ] as const)
    it(`to an engine with the fault ${fault} is ${status} ${code}`, async () => {
      // Where it is not waited in vain, a machine that stands still for a moment must not make it so.
      const timeouts = { firstByteMs: fault === "hang" ? 100 : 60_000, idleMs: 60_000 };
      await using site = await open({ fault }, { timeouts });
      const answer = await post(site, whole);
      assert.deepEqual([answer.status, answer.code], [status, code]);
      assert.match(answer.text, message);
    });

  it("to an engine that does not listen is 502, and its upload is not read", async () => {
    await using site = await startAudioSite({ engine: { host: "127.0.0.1", port: await freePort() } });
    const { status, code } = await post(site, whole);
    assert.deepEqual([status, code], [502, "dispatch.upstream_unavailable"]);
  });

  it("is 408 when its sender stops sending, before its model is known and while it is held", async () => {
    await using site = await open({}, { idleTimeoutMs: 50, hold: () => new Promise<void>(() => undefined) });
    for (const body of [form(file()), whole]) {
      const { request, status } = opened(site);
      request.write(body.subarray(0, -boundary.length));
      assert.equal(await status, 408);
      request.destroy();
    }
    assert.deepEqual(site.calls, []);
  });

  it("frees its place when its sender stops sending", async () => {
    await using site = await open({}, { timeouts: { firstByteMs: 60_000, idleMs: 50 } });
    const { request, status } = opened(site);
    request.write(whole.subarray(0, 300));
    assert.equal(await status, 504);
    request.destroy();
  });

  it("of which only the last bytes cannot be kept is broken, and not whole", async () => {
    await using directory = await tempDir();
    const spoolDir = join(directory.path, "spool");
    // No directory can be made there, as on a disk that is full.
    await writeFile(spoolDir, "");
    await using site = await open({}, { spoolDir, hold: () => new Promise<void>(() => undefined) });
    const opened = async (size: number): Promise<Transcription> => {
      const before = site.uploads.length;
      void later(post(site, form(model, file(Buffer.alloc(size)))));
      return await until("its model is known", () => site.uploads[before]);
    };
    const lengthOf = (upload: Transcription): number | undefined => upload.forward("stt").headers["content-length"];
    const small = await opened(1000);
    const frame = (await until("it is whole", () => lengthOf(small))) - 1000;
    // All fits into memory but the end of the form; what names the model is not spooled.
    const named = '--\r\ncontent-disposition: form-data; name="model"\r\n\r\nstt\r\n'.length + "berth-".length + 32;
    const upload = await opened(spoolMemoryBytes - (frame - named) + 1);
    await until("it is over", () => upload.broken.aborted || lengthOf(upload) !== undefined);
    assert.equal(upload.broken.aborted, true);
  });
});
