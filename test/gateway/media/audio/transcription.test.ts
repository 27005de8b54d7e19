import assert from "node:assert/strict";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { transcriptionAnswers } from "../../../../src/gateway/media/audio/transcription-answer.ts";
import { heardIn } from "../../../doubles/whisper.ts";
import { envelopeOf } from "../../../support/envelope.ts";
import { formBody, type FormPart } from "../../../support/form.ts";
import { later } from "../../../support/later.ts";
import { record } from "../../../support/openai.ts";
import { until } from "../../../support/until.ts";
import { field, fileOf, model, openSite, openUpload, slot, transcriptions, upload, wavOf } from "./gateway.ts";

const wav = wavOf(3000);
const file = fileOf(wav);
const form = (...parts: readonly FormPart[]): Buffer => formBody("b", parts);
const large = Buffer.concat([wav, Buffer.alloc(2_000_000, "\r\n--x-boundar")]);
const english = field("language", "en");

describe("a transcription", () => {
  const orders: readonly (readonly FormPart[])[] = [
    [model, english, fileOf(large)],
    [fileOf(large), english, model],
    [english, fileOf(large), model],
  ];

  it("reaches the engine whole, with its own model name, in any order of its parts", async () => {
    await using site = await openSite();
    for (const parts of orders) {
      const answer = await upload(site.gateway, parts);
      assert.deepEqual([answer.status, await answer.json()], [200, { text: heardIn(large) }]);
      const { fields, fileName } = site.calls.at(-1) ?? assert.fail();
      assert.deepEqual([fields, fileName], [{ model: "kokoro", language: "en" }, "a.wav"]);
    }
    const counted = `berth_requests_total{route="${transcriptions}",slot="stt",code="200"}`;
    assert.equal(await site.gateway.metric(counted), 3);
  });

  it("is held while the slot is cold, and sent with its length", async () => {
    await using site = await openSite({ isCold: true });
    const answers = orders.map((parts) => later(upload(site.gateway, parts)));
    await until("all are demand", () => site.gateway.demand("stt")?.held === 3);
    await site.warm();
    for (const answer of answers) assert.deepEqual(await (await answer).json(), { text: heardIn(large) });
    for (const { headers } of site.calls) {
      assert.equal(headers["transfer-encoding"], undefined);
      assert.match(headers["content-length"] ?? "", /^200\d{4}$/);
    }
  });

  it("takes no place at its engine and names no model before it has arrived whole", async () => {
    await using site = await openSite();
    const slow = openUpload(site.gateway.url);
    const unknown = openUpload(site.gateway.url);
    const body = form(model, file);
    slow.request.write(body.subarray(0, 200));
    unknown.request.write(form(field("model", "nobody"), file).subarray(0, 200));
    for (let nth = 0; nth < 2; nth += 1) assert.equal((await upload(site.gateway, [model, file])).status, 200);
    assert.equal(site.calls.length, 2, "one at a time is what the slot takes");
    slow.request.end(body.subarray(200));
    assert.equal(await slow.status, 200);
    assert.equal(site.calls[2]?.fileBytes, wav.length);
    unknown.request.end(form(field("model", "nobody"), file).subarray(200));
    assert.equal(await unknown.status, 404);
  });

  it("is answered in each of whisper.cpp's formats", async () => {
    await using site = await openSite();
    for (const [format, type, text] of [
      ["json", "application/json", /^\{"text":"The file has 3012 bytes and the digest \w{16}\."\}$/],
      ["text", "text/plain; charset=utf-8", /^The file has 3012 bytes and the digest \w{16}\.\n$/],
      ["srt", "application/x-subrip", /^1\n00:00:00,000 --> /],
      ["vtt", "text/vtt", /^WEBVTT\n/],
      ["verbose_json", "application/json", /"segments":\[\{"id":0/],
    ] as const) {
      const answer = await upload(site.gateway, [model, field("response_format", format), file]);
      assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, type]);
      assert.match(await answer.text(), text);
    }
  });

  it("has the words beside the segments where they are asked for, put together from tokens", async () => {
    await using site = await openSite();
    const verbose = field("response_format", "verbose_json");
    const asked = ["segment", "word"].map((value) => field("timestamp_granularities[]", value));
    const answer = JSON.parse(await (await upload(site.gateway, [model, verbose, ...asked, file])).text());
    assert.deepEqual(answer.words.slice(0, 2), [
      { word: "The", start: 0, end: 0.1 },
      { word: "file", start: 0.1, end: 0.2 },
    ]);
    assert.equal(answer.words.map(({ word }: { word: string }) => word).join(" "), answer.text);
    const plain = await (await upload(site.gateway, [model, verbose, file])).json();
    assert.equal("words" in record(plain), false);
  });

  it("is one line, where whisper.cpp ends a line after 60 letters", () => {
    const answers = transcriptionAnswers(new Map());
    const said = Buffer.from(JSON.stringify({ text: " And so, my fellow\n Americans\n" }));
    assert.deepEqual(JSON.parse(answers.answer(said).toString()), { text: "And so, my fellow Americans" });
    const refused = answers.refusal?.(500, Buffer.from("500 Internal Server Error\nstoi"));
    assert.deepEqual([refused?.status, refused?.code], [400, "dispatch.rejected"]);
    assert.equal(answers.refusal?.(500, Buffer.from("500 Internal Server Error\nbad_alloc")), undefined);
  });

  it("keeps names and values unchanged, but names a file without a name, and a language without its region", async () => {
    await using site = await openSite();
    const fields = [
      model,
      field("prompt", "Grüße \u{fffd}\r\n--x-boundar"),
      field("timestamp_granularities[]", "word"),
    ];
    await upload(site.gateway, [...fields, { name: "file", value: wav }]);
    assert.deepEqual(site.calls[0]?.fields, {
      model: "kokoro",
      prompt: "Grüße \u{fffd}\r\n--x-boundar",
      "timestamp_granularities[]": "word",
    });
    await upload(site.gateway, [model, { name: "file", filename: String.raw`ü \"x\".wav`, value: wav }]);
    const extended = form(model, file).toString("latin1").replace('filename="a.wav"', "filename*=UTF-8''%D0%B7.ogg");
    await upload(site.gateway, Buffer.from(extended, "latin1"));
    for (const type of ["audio/webm;codecs=opus", "audio/mpeg", "audio/x-wav", "application/octet-stream"])
      await upload(site.gateway, [model, { name: "file", type, value: wav }]);
    const names = site.calls.map(({ fileName }) => fileName);
    assert.deepEqual(names, ["audio", "ü %22x%22.wav", "з.ogg", "audio.webm", "audio.mp3", "audio.wav", "audio"]);
    for (const language of ["en-US", "pt_BR", "auto", "german"])
      await upload(site.gateway, [model, field("language", language), file]);
    const sent = site.calls.slice(-4).map((call) => call.fields["language"]);
    assert.deepEqual(sent, ["en", "pt", "auto", "german"]);
  });

  const format = (value: string): FormPart => field("response_format", value);
  const refused: readonly (readonly [what: string, body: Buffer, place?: string, code?: string])[] = [
    ["without a model", form(file), "model", "dispatch.missing_model"],
    ["without a file", form(model), "file"],
    ["of nothing", Buffer.alloc(0)],
    ["that is JSON", Buffer.from('{"model":"stt"}')],
    ["without its end", form(model, file).subarray(0, -10)],
    ["with an empty model", form(field("model", ""), file), "model"],
    ["with two models", form(model, file, field("model", "other")), "model"],
    ["with two files", form(model, file, file), "file"],
    ["with a file elsewhere", form(model, { ...file, name: "audio" }), "audio"],
    ["with an unknown format", form(model, format("xml"), file), "response_format"],
    ["with OpenAI's format of speakers, at the end", form(model, file, format("diarized_json")), "response_format"],
    ["with a language that does not exist", form(model, field("language", "zz"), file), "language"],
    ["with a temperature that is none", form(model, field("temperature", "hot"), file), "temperature"],
    ["with a temperature of nothing", form(field("temperature", " "), model, file), "temperature"],
    ["with a huge field", form(field("prompt", "x".repeat(70_000)), model, file), "prompt"],
    ["with a prompt that is no UTF-8", form(model, { name: "prompt", value: Buffer.from([0xff]) }, file), "prompt"],
    [
      "with a part without a name",
      Buffer.from(form(model, file).toString("latin1").replace('name="model"', "x=y"), "latin1"),
    ],
    ["with a malformed part", Buffer.from("--b\r\nnonsense\r\n\r\n")],
  ];
  it("is refused at once where it is wrong, although the slot is cold", async () => {
    await using site = await openSite({ isCold: true });
    for (const [what, body, place, code = "dispatch.invalid_request"] of refused) {
      const response = await upload(site.gateway, body);
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code], [400, code], what);
      if (place !== undefined) assert.deepEqual(error.details?.["path"], [place], what);
    }
    for (const [name, code] of [
      ["nobody", "model.not_found"],
      ["tts", "dispatch.capability_mismatch"],
    ] as const) {
      const { error } = await envelopeOf(await upload(site.gateway, [field("model", name), file]));
      assert.equal(error.code, code);
    }
    assert.equal(await site.gateway.metric('berth_requests_held{slot="stt"}'), 0, "nothing waits for nobody");
  });

  it("is refused where it is too large, compressed or no form", async () => {
    await using site = await openSite({}, { SVC_BODY_LIMIT: "1000000" });
    for (const [headers, status, code, body = form(model, file)] of [
      [{}, 413, "dispatch.payload_too_large", form(model, fileOf(large))],
      [{ "content-type": "application/json" }, 415, "dispatch.unsupported_media_type"],
      [{ "content-type": "multipart/form-data" }, 400, "dispatch.invalid_request"],
      [{ "content-type": "multipart/form-data; boundary=other" }, 400, "dispatch.invalid_request"],
      [{ "content-encoding": "gzip" }, 415, "dispatch.unsupported_media_type", gzipSync(form(model, file))],
    ] as const) {
      const response = await upload(site.gateway, body, transcriptions, headers);
      assert.deepEqual([response.status, (await envelopeOf(response)).error.code], [status, code]);
    }
    const { request, status } = openUpload(site.gateway.url);
    request.write(form(model, fileOf(large)).subarray(0, -10));
    assert.equal(await status, 413, "also where it tells no length");
    request.destroy();
    assert.equal(site.calls.length, 0, "the engine gets nothing of them");
  });

  it("leaves nothing when its client does: within the upload, before the answer, and while it is held", async () => {
    await using site = await openSite({ fault: "hang" }, { SVC_SPOOL_LIMIT: "3000000" });
    const body = form(model, fileOf(large));
    // There is room for one of them.
    for (const isCold of [false, true]) {
      if (isCold) await site.gateway.publish("stt", slot("stt"));
      for (const isWhole of [false, true]) {
        const { request, status } = openUpload(site.gateway.url);
        if (isWhole) request.end(body);
        else await new Promise((resolve) => request.write(body.subarray(0, -100), resolve));
        if (isWhole && isCold) await until("it is held", () => site.gateway.demand("stt")?.held === 1);
        else if (isWhole) await until("the engine has it", () => site.calls.at(-1)?.isWhole);
        (request.socket instanceof Socket ? request.socket : assert.fail()).resetAndDestroy();
        assert.equal(await status, undefined);
        await until("it is forgotten", () => site.gateway.demand("stt")?.held === 0);
        if (!isCold) await until("the engine is let go", () => site.calls.every(({ isGone }) => isGone));
      }
    }
    const count = (of: string, code: number) =>
      `berth_requests_total{route="${transcriptions}",slot="${of}",code="${code}"}`;
    const counts = [count("none", 499), count("stt", 499), count("none", 400)];
    const seen = await Promise.all(counts.map((each) => site.gateway.metric(each)));
    assert.deepEqual(seen, [2, 2, undefined], "its client has left: the form is not at fault");
    await site.warm();
    const last = openUpload(site.gateway.url);
    last.request.end(body);
    await until("there is room again", () => site.calls.at(-1)?.isWhole === true && !site.calls.at(-1)?.isGone);
    last.request.destroy();
  });

  for (const [what, double, status, code, message] of [
    ["fails", { fault: "fail" }, 502, "dispatch.upstream_failed", /failed to process audio/],
    ["answers garbage", { fault: "garbage" }, 502, "dispatch.upstream_failed", /not JSON/],
    ["dies", { fault: "die" }, 502, "dispatch.upstream_failed", /closed the connection/],
    ["refuses early", { fault: "early" }, 415, "dispatch.unsupported_media_type", /cannot be decoded/],
    ["cannot decode it", {}, 415, "dispatch.unsupported_media_type", /cannot be decoded/],
    [
      "cannot convert it by ffmpeg",
      { isConverting: true },
      415,
      "dispatch.unsupported_media_type",
      /cannot be decoded/,
    ],
  ] as const)
    it(`is ${status} where its engine ${what}`, async () => {
      await using site = await openSite(double);
      const response = await upload(site.gateway, [model, "fault" in double ? file : fileOf(Buffer.from("not audio"))]);
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code], [status, code]);
      assert.match(error.message, message);
    });
});
