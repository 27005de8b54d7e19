import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import OpenAI, { toFile } from "openai";
import { isRecord } from "../../src/lib/record.ts";
import { spoken } from "../doubles/kokoro.ts";
import { heardIn } from "../doubles/whisper.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { formBody } from "../support/form.ts";
import { until } from "../support/until.ts";

const doubles = fileURLToPath(new URL("../doubles", import.meta.url));
const wav = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(50_000, 3)]);

/** A shipped example, with a double in the place of its program. */
async function manifest(name: string, program: string, ...double: readonly string[]): Promise<string> {
  const text = await readFile(new URL(`../../manifests/examples/slots/${name}.toml`, import.meta.url), "utf8");
  const [file = "", ...flags] = double;
  const words = [process.execPath, join(doubles, file), ...flags].map((word) => JSON.stringify(word)).join(", ");
  assert.ok(text.includes(`"${program}"`));
  return text.replace("enabled = true", 'load = "onDemand"').replace(`"${program}"`, words);
}

test("speech in and out through the whole service, from cold slots, by the OpenAI client", async (t) => {
  await using berth = await startBerth({
    prepare: async ({ configDir }) => {
      const [stt, tts] = await Promise.all([
        manifest("stt", "whisper-server", "whisper.ts", "--load-ms", "300"),
        manifest("tts", "fastkokoro", "kokoro.ts", "--chunks", "5"),
      ]);
      await writeFile(join(configDir, "slots/stt.toml"), stt);
      await writeFile(join(configDir, "slots/tts.toml"), tts);
    },
  });
  await until("stt is published", async () => (await berth.slot("stt"))["enabled"] === true);
  await until("tts is published", async () => (await berth.slot("tts"))["enabled"] === true);
  const client = new OpenAI({ apiKey: "none", baseURL: `${berth.url}/v1`, maxRetries: 0 });
  const audio = (): Promise<File> => toFile(wav, "a.wav");

  await t.test("a cold slot is loaded by the upload that waits for it", async () => {
    assert.equal((await berth.slot("stt"))["state"], "offline");
    const answer = await client.audio.transcriptions.create({ model: "stt", file: await audio(), language: "en" });
    assert.equal(answer.text.trim(), heardIn(wav));
  });

  await t.test("captions, and segments with their times", async () => {
    const file = await audio();
    const srt = await client.audio.transcriptions.create({ model: "stt", file, response_format: "srt" });
    assert.match(srt, /^1\n00:00:00,000 --> /);
    const verbose = await client.audio.transcriptions.create({ model: "stt", file, response_format: "verbose_json" });
    assert.equal(verbose.segments?.[0]?.text.trim(), heardIn(wav));
  });

  await t.test("25 MB of audio cost less than 10 MB of memory, wherever the model stands", async () => {
    const large = Buffer.concat([wav, Buffer.alloc(25_000_000, "noise")]);
    const file = { name: "file", filename: "a.wav", value: large };
    const model = { name: "model", value: "stt" };
    const gateway = await gatewayPid(berth);
    const forms = [formBody("b", [model, file]), formBody("b", [file, model])];
    for (const form of forms) {
      // Resets the peak (proc(5), clear_refs).
      await writeFile(`/proc/${gateway}/clear_refs`, "5");
      const before = await memoryKb(gateway, "VmRSS");
      await heard(berth, form, large);
      const rise = (await memoryKb(gateway, "VmHWM")) - before;
      assert.ok(rise < 10_000, `${rise} kB`);
    }
  });

  await t.test("speech, whole and in chunks", async () => {
    const asked = { model: "tts", voice: "af_heart", input: "hello", response_format: "opus" } as const;
    const answer = await client.audio.speech.create(asked);
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), spoken("opus", 5));
    const unasked = await client.audio.speech.create({ model: "kokoro", voice: "alloy", input: "hello", speed: 4 });
    assert.equal(unasked.headers.get("content-type"), "audio/mpeg");
    await unasked.arrayBuffer();
  });

  await t.test("errors are those that the client knows", async () => {
    const noise = await toFile(Buffer.from("hello"), "a.wav");
    await assert.rejects(client.audio.transcriptions.create({ model: "stt", file: noise }), { status: 415 });
    const say = { voice: "af_heart", input: "hello" };
    await assert.rejects(client.audio.speech.create({ ...say, model: "tts", speed: 9 }), OpenAI.BadRequestError);
    const mismatch = { status: 400, code: "dispatch.capability_mismatch" };
    await assert.rejects(client.audio.speech.create({ ...say, model: "stt" }), mismatch);
  });

  await t.test("the voices of the slot", async () => {
    const body = await berth.get("/v1/audio/voices");
    assert.ok(isRecord(body) && Array.isArray(body["data"]));
    assert.deepEqual(body["data"][1], { id: "af_heart", object: "voice", name: "af_heart", language: "en-US" });
  });
});

async function heard(berth: RunningBerth, form: Buffer, file: Buffer): Promise<void> {
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  const url = `${berth.url}/v1/audio/transcriptions`;
  const response = await fetch(url, { method: "POST", headers, body: new Uint8Array(form) });
  assert.deepEqual(await response.json(), { text: heardIn(file) });
}

async function memoryKb(pid: number, name: "VmRSS" | "VmHWM"): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]);
}

/** `berth up` runs the gateway as a child. */
async function gatewayPid(berth: RunningBerth): Promise<number> {
  const root = berth.child.pid ?? 0;
  const children = (await readFile(`/proc/${root}/task/${root}/children`, "utf8")).trim().split(" ").map(Number);
  for (const pid of children) {
    if ((await readFile(`/proc/${pid}/cmdline`, "utf8")).includes("serve")) return pid;
  }
  throw new Error("no gateway runs");
}
