import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest, type ClientRequest } from "node:http";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { isRecord } from "../../../src/lib/record.ts";
import { transcriptionAnswers } from "../../../src/gateway/audio/transcription-answer.ts";
import { heardIn, startWhisperDouble, type WhisperDoubleOptions } from "../../doubles/whisper.ts";
import { formBody, type FormPart } from "../../support/form.ts";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";
import { startAudioSite, type AudioSite } from "./site.ts";
import { later } from "../../support/later.ts";

const boundary = "x-boundary";
const wav = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(3000, 7)]);
const large = Buffer.concat([wav, Buffer.alloc(2_000_000, "\r\n--x-boundar")]);
const model: FormPart = { name: "model", value: "stt" };
const file = (value: Buffer = wav): FormPart => ({ name: "file", filename: "a.wav", type: "audio/wav", value });

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
  /** `code` of the envelope, where there is one. */
  readonly code: unknown;
  readonly details: unknown;
}

async function post(site: AudioSite, body: Buffer, headers: Record<string, string> = {}): Promise<Answer> {
  const type = `multipart/form-data; boundary=${boundary}`;
  const response = await fetch(site.url, {
    method: "POST",
    body: new Uint8Array(body),
    headers: { "content-type": type, ...headers },
  });
  const text = await response.text();
  const parsed: unknown = text.startsWith("{") ? JSON.parse(text) : undefined;
  const error = isRecord(parsed) && isRecord(parsed["error"]) ? parsed["error"] : {};
  return {
    status: response.status,
    type: response.headers.get("content-type") ?? "",
    text,
    code: error["code"],
    details: error["details"],
  };
}

/** A request whose body the test writes piece by piece. */
function opened(site: AudioSite): { request: ClientRequest; status: Promise<number | undefined> } {
  const request = httpRequest(site.url, {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
  });
  const status = new Promise<number | undefined>((resolve) => {
    request.once("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
  return { request, status };
}

async function withDouble(
  options: WhisperDoubleOptions,
  run: (site: AudioSite, double: Awaited<ReturnType<typeof startWhisperDouble>>) => Promise<void>,
  site: {
    bodyLimitBytes?: number;
    hold?: () => Promise<void>;
    idleTimeoutMs?: number;
    timeouts?: { firstByteMs: number; idleMs: number };
  } = {},
): Promise<void> {
  await using double = await startWhisperDouble(options);
  await using started = await startAudioSite({ engine: double, ...site });
  await run(started, double);
}

describe("a transcription", () => {
  const orders: readonly (readonly [what: string, parts: readonly FormPart[]])[] = [
    ["model first", [model, { name: "language", value: "en" }, file(large)]],
    ["model last", [file(large), { name: "language", value: "en" }, model]],
    ["fields on both sides", [{ name: "language", value: "en" }, file(large), model]],
  ];
  for (const [what, parts] of orders) {
    it(`reaches the engine whole, with its own model name: ${what}`, async () => {
      await withDouble({}, async (site, double) => {
        const answer = await post(site, formBody(boundary, parts));
        assert.deepEqual(JSON.parse(answer.text), { text: heardIn(large) });
        assert.deepEqual(double.calls[0]?.fields, { model: "whisper-served", language: "en" });
        assert.equal(double.calls[0]?.fileName, "a.wav");
        assert.equal(site.uploads[0]?.model, "stt");
        assert.deepEqual([...(site.uploads[0]?.fields ?? [])], [["language", "en"]]);
      });
    });
  }

  it("is sent with its length once it has arrived whole, in chunks before", async () => {
    const held = Promise.withResolvers<void>();
    await withDouble(
      {},
      async (site, double) => {
        const answer = later(post(site, formBody(boundary, [model, file()])));
        await until("the upload is there whole", () => site.requests[0]?.readableEnded);
        held.resolve();
        assert.equal((await answer).status, 200);
        const { headers } = double.calls[0] ?? {};
        assert.match(headers?.["content-length"] ?? "", /^3\d{3}$/);
        const { request, status } = opened(site);
        const body = formBody(boundary, [model, file()]);
        request.write(body.subarray(0, 200));
        await until("the engine has its beginning", () => double.calls.length === 2);
        request.end(body.subarray(200));
        assert.equal(await status, 200);
        assert.equal(double.calls[1]?.headers["transfer-encoding"], "chunked");
        assert.equal(double.calls[1]?.fileBytes, wav.length);
      },
      { hold: () => held.promise },
    );
  });

  it("is passed on while it arrives", async () => {
    await withDouble({}, async (site, double) => {
      const { request, status } = opened(site);
      const body = formBody(boundary, [model, file(large)]);
      request.write(body.subarray(0, 1_000_000));
      await until("the engine has most of that", () => (double.calls[0]?.fileBytes ?? 0) > 900_000);
      assert.equal(double.calls[0]?.isWhole, false);
      request.end(body.subarray(1_000_000));
      assert.equal(await status, 200);
    });
  });

  const formats: readonly (readonly [format: string, type: string, text: RegExp])[] = [
    ["json", "application/json", /^\{"text":"The file has 3012 bytes and the digest \w{16}\."\}$/],
    ["text", "text/plain; charset=utf-8", /^The file has 3012 bytes and the digest \w{16}\.\n$/],
    ["srt", "application/x-subrip", /^1\n00:00:00,000 --> /],
    ["vtt", "text/vtt", /^WEBVTT\n/],
    ["verbose_json", "application/json", /"segments":\[\{"id":0/],
  ];
  for (const [format, type, text] of formats) {
    it(`is answered as ${format}`, async () => {
      await withDouble({}, async (site) => {
        const answer = await post(
          site,
          formBody(boundary, [model, { name: "response_format", value: format }, file()]),
        );
        assert.equal(answer.status, 200);
        assert.equal(answer.type, type);
        assert.match(answer.text, text);
      });
    });
  }

  it("is asked for in a language without its region, which whisper.cpp does not know", async () => {
    await withDouble({}, async (site, double) => {
      for (const [asked, sent] of [
        ["en-US", "en"],
        ["pt_BR", "pt"],
        ["auto", "auto"],
        ["german", "german"],
      ] as const) {
        await post(site, formBody(boundary, [model, { name: "language", value: asked }, file()]));
        assert.equal(double.calls.at(-1)?.fields["language"], sent);
      }
    });
  });

  it("has the words beside the segments where they are asked for, put together from tokens", async () => {
    await withDouble({}, async (site) => {
      const verbose = { name: "response_format", value: "verbose_json" };
      const asked = ["segment", "word"].map((value) => ({ name: "timestamp_granularities[]", value }));
      const { text } = await post(site, formBody(boundary, [model, verbose, ...asked, file()]));
      const answer = JSON.parse(text);
      assert.deepEqual(answer.words.slice(0, 4), [
        { word: "The", start: 0, end: 0.1 },
        { word: "file", start: 0.1, end: 0.2 },
        { word: "has", start: 0.2, end: 0.3 },
        { word: "3012", start: 0.3, end: 0.4 },
      ]);
      assert.equal(answer.words.map(({ word }: { word: string }) => word).join(" "), answer.text);
      const plain = await post(site, formBody(boundary, [model, verbose, file()]));
      assert.equal("words" in JSON.parse(plain.text), false);
    });
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
    await withDouble({}, async (site, double) => {
      const fields = [
        model,
        { name: "prompt", value: "Grüße\r\n--x-boundar" },
        { name: "timestamp_granularities[]", value: "word" },
      ];
      await post(site, formBody(boundary, [...fields, { name: "file", value: wav }]));
      await post(
        site,
        formBody(boundary, [model, { name: "file", filename: 'ü "x".wav'.replaceAll('"', '\\"'), value: wav }]),
      );
      assert.deepEqual(double.calls[0]?.fields, {
        model: "whisper-served",
        prompt: "Grüße\r\n--x-boundar",
        "timestamp_granularities[]": "word",
      });
      for (const type of ["audio/webm;codecs=opus", "audio/mpeg", "audio/x-wav", "application/octet-stream"])
        await post(site, formBody(boundary, [model, { name: "file", type, value: wav }]));
      assert.deepEqual(
        double.calls.slice(2).map(({ fileName }) => fileName),
        ["audio.webm", "audio.mp3", "audio.wav", "audio"],
      );
      assert.equal(double.calls[0]?.fileName, "audio");
      assert.equal(double.calls[1]?.fileName, "ü %22x%22.wav");
    });
  });

  for (const isConverting of [false, true]) {
    it(`of a file that is not audio is 415${isConverting ? ", also by ffmpeg" : ""}`, async () => {
      await withDouble({ isConverting }, async (site) => {
        const answer = await post(site, formBody(boundary, [model, file(Buffer.from("not audio"))]));
        assert.equal(answer.status, 415);
        assert.equal(answer.code, "dispatch.unsupported_media_type");
        assert.deepEqual(answer.details, { path: ["file"] });
      });
    });
  }

  const whole = formBody(boundary, [model, file()]);
  const refused: readonly (readonly [
    what: string,
    body: Buffer,
    status: number,
    code: string,
    path?: readonly string[],
  ])[] = [
    ["without a model", formBody(boundary, [file()]), 400, "dispatch.missing_model", ["model"]],
    ["without a file", formBody(boundary, [model]), 400, "dispatch.invalid_request", ["file"]],
    ["of nothing", Buffer.alloc(0), 400, "dispatch.invalid_request"],
    ["that is JSON", Buffer.from('{"model":"stt"}'), 400, "dispatch.invalid_request"],
    ["without its end", whole.subarray(0, -10), 400, "dispatch.invalid_request"],
    [
      "with an empty model",
      formBody(boundary, [{ name: "model", value: "" }, file()]),
      400,
      "dispatch.invalid_request",
      ["model"],
    ],
    [
      "with two models",
      formBody(boundary, [model, file(), { name: "model", value: "other" }]),
      400,
      "dispatch.invalid_request",
      ["model"],
    ],
    ["with two files", formBody(boundary, [model, file(), file()]), 400, "dispatch.invalid_request", ["file"]],
    [
      "with a file elsewhere",
      formBody(boundary, [model, { ...file(), name: "audio" }]),
      400,
      "dispatch.invalid_request",
      ["audio"],
    ],
    [
      "with an unknown format",
      formBody(boundary, [model, { name: "response_format", value: "xml" }, file()]),
      400,
      "dispatch.invalid_request",
      ["response_format"],
    ],
    [
      "with OpenAI's format of speakers, at the end",
      formBody(boundary, [model, file(), { name: "response_format", value: "diarized_json" }]),
      400,
      "dispatch.invalid_request",
      ["response_format"],
    ],
    [
      "with a language that is none",
      formBody(boundary, [model, { name: "language", value: "zz" }, file()]),
      400,
      "dispatch.invalid_request",
      ["language"],
    ],
    [
      "with a temperature that is none",
      formBody(boundary, [model, { name: "temperature", value: "hot" }, file()]),
      400,
      "dispatch.invalid_request",
      ["temperature"],
    ],
    [
      "with a temperature of nothing",
      formBody(boundary, [{ name: "temperature", value: " " }, model, file()]),
      400,
      "dispatch.invalid_request",
      ["temperature"],
    ],
    [
      "with a huge field",
      formBody(boundary, [{ name: "prompt", value: "x".repeat(70_000) }, model, file()]),
      400,
      "dispatch.invalid_request",
      ["prompt"],
    ],
    ["with a malformed part", Buffer.from(`--${boundary}\r\nnonsense\r\n\r\n`), 400, "dispatch.invalid_request"],
    ["beyond the limit", formBody(boundary, [model, file(large)]), 413, "dispatch.payload_too_large"],
  ];
  for (const [what, body, status, code, path] of refused) {
    it(`${what} is ${status} ${code}`, async () => {
      await withDouble(
        {},
        async (site) => {
          const answer = await post(site, body);
          assert.equal(answer.status, status, answer.text);
          assert.equal(answer.code, code);
          if (path !== undefined) assert.deepEqual(isRecord(answer.details) && answer.details["path"], path);
        },
        { bodyLimitBytes: 1_000_000 },
      );
    });
  }

  const types: readonly (readonly [headers: Record<string, string>, status: number, code: string])[] = [
    [{ "content-type": "application/json" }, 415, "dispatch.unsupported_media_type"],
    [{ "content-type": "multipart/form-data" }, 400, "dispatch.invalid_request"],
    [{ "content-type": "multipart/form-data; boundary=other" }, 400, "dispatch.invalid_request"],
    [{ "content-encoding": "gzip" }, 415, "dispatch.unsupported_media_type"],
  ];
  for (const [headers, status, code] of types) {
    it(`with ${JSON.stringify(headers)} is ${status} ${code}`, async () => {
      await withDouble({}, async (site) => {
        const answer = await post(site, "content-encoding" in headers ? gzipSync(whole) : whole, headers);
        assert.equal(answer.status, status, answer.text);
        assert.equal(answer.code, code);
      });
    });
  }

  it("beyond the limit without a length is 413 too, and leaves nothing at the engine", async () => {
    await withDouble(
      {},
      async (site, double) => {
        const { request, status } = opened(site);
        request.write(formBody(boundary, [model, file(large)]).subarray(0, -10));
        assert.equal(await status, 413);
        request.destroy();
        await until("the engine is let go", () => double.calls.every(({ isGone }) => isGone));
      },
      { bodyLimitBytes: 1_000_000 },
    );
  });

  it("whose client leaves within the upload is dropped at the engine at once", async () => {
    await withDouble({}, async (site, double) => {
      const { request } = opened(site);
      request.write(formBody(boundary, [model, file(large)]).subarray(0, 500_000));
      await until("the engine has a part", () => (double.calls[0]?.fileBytes ?? 0) > 0);
      request.destroy();
      await until("the engine is let go", () => double.calls[0]?.isGone);
      await until("the site has noticed", () => site.failures[0]?.message === "the body ended early");
    });
  });

  it("is dropped when its client leaves while it is held, although the gateway reads no byte meanwhile", async () => {
    await withDouble(
      {},
      async (site, double) => {
        const { request } = opened(site);
        request.write(formBody(boundary, [model, file(large)]).subarray(0, 1_500_000));
        await until("it is held", () => site.uploads.length === 1);
        request.destroy();
        await until("it is noticed", () => site.failures.length === 1);
        assert.equal(site.uploads[0]?.broken.aborted, true);
        assert.deepEqual(double.calls, []);
      },
      { hold: () => new Promise<void>(() => undefined) },
    );
  });

  it("whose client leaves before the answer frees the engine", async () => {
    await withDouble({ fault: "hang" }, async (site, double) => {
      const { request } = opened(site);
      request.end(formBody(boundary, [model, file()]));
      await until("the engine has it", () => double.calls[0]?.isWhole);
      request.destroy();
      await until("the engine is let go", () => double.calls[0]?.isGone);
    });
  });

  const faults: readonly (readonly [options: WhisperDoubleOptions, status: number, code: string, message: RegExp])[] = [
    [{ fault: "fail" }, 502, "dispatch.upstream_failed", /failed to process audio/],
    [{ fault: "garbage" }, 502, "dispatch.upstream_failed", /not JSON/],
    [{ fault: "die" }, 502, "dispatch.upstream_failed", /closed the connection/],
    [{ fault: "hang" }, 504, "dispatch.upstream_timeout", /in time/],
    [{ fault: "early" }, 415, "dispatch.unsupported_media_type", /cannot decode/],
  ];
  for (const [options, status, code, message] of faults) {
    it(`to an engine with the fault ${options.fault ?? ""} is ${status} ${code}`, async () => {
      await withDouble(
        options,
        async (site) => {
          const answer = await post(site, formBody(boundary, [model, file()]));
          assert.equal(answer.status, status, answer.text);
          assert.equal(answer.code, code);
          assert.match(answer.text, message);
        },
        // Where it is not waited in vain, a machine that stands still for a moment must not make it so.
        { timeouts: { firstByteMs: options.fault === "hang" ? 300 : 60_000, idleMs: 60_000 } },
      );
    });
  }

  it("to an engine that does not listen is 502, and its upload is not read", async () => {
    await using site = await startAudioSite({ engine: { host: "127.0.0.1", port: await freePort() } });
    const answer = await post(site, formBody(boundary, [model, file()]));
    assert.equal(answer.code, "dispatch.upstream_unavailable");
    assert.equal(answer.status, 502);
  });

  it("is 408 when its sender stops sending, before its model is known and while it is held", async () => {
    const held = Promise.withResolvers<void>();
    await withDouble(
      {},
      async (site, double) => {
        for (const parts of [[file()], [model, file()]]) {
          const { request, status } = opened(site);
          request.write(formBody(boundary, parts).subarray(0, -boundary.length));
          assert.equal(await status, 408);
          request.destroy();
        }
        assert.equal(double.calls.length, 0);
      },
      { idleTimeoutMs: 200, hold: () => held.promise },
    );
    held.resolve();
  });

  it("frees its place when its sender stops sending", async () => {
    await withDouble(
      {},
      async (site) => {
        const { request, status } = opened(site);
        request.write(formBody(boundary, [model, file()]).subarray(0, 300));
        assert.equal(await status, 504);
        request.destroy();
      },
      { timeouts: { firstByteMs: 60_000, idleMs: 100 } },
    );
  });

  it("is answered also with time limits that are longer than a timer of Node can count", async () => {
    const year = 31_536_000_000;
    await withDouble(
      {},
      async (site) => {
        const answer = await post(site, formBody(boundary, [model, file()]));
        assert.equal(answer.status, 200, answer.text);
      },
      { timeouts: { firstByteMs: year, idleMs: year } },
    );
  });

  it("may come byte by byte", async () => {
    await withDouble({}, async (site) => {
      const socket = connect(site.port, "127.0.0.1");
      const body = formBody(boundary, [{ name: "prompt", value: "hi" }, file(wav.subarray(0, 40)), model]);
      socket.write(
        `POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\ncontent-length: ${body.length}\r\n\r\n`,
      );
      socket.setNoDelay(true);
      for (const byte of body) {
        if (!socket.write(Buffer.of(byte))) await once(socket, "drain");
      }
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      assert.match(text, new RegExp(heardIn(wav.subarray(0, 40))));
    });
  });
});
