import { formBody, type FormPart } from "../../support/form.ts";
import type { SlotSketch, TestGateway } from "../../support/gateway.ts";

export const transcriptions = "/v1/audio/transcriptions";
export const model: FormPart = { name: "model", value: "stt" };

/** A file of audio, as far as its first bytes tell. */
export const wavOf = (bytes: number): Buffer =>
  Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(bytes, 3)]);
export const fileOf = (value: Buffer): FormPart => ({ name: "file", filename: "a.wav", value });

export function slot(engine: "stt" | "tts", port?: number): SlotSketch {
  return {
    ...(port === undefined ? {} : { port }),
    spec: { engine, model: { default: engine } },
    status: {
      capabilities: [engine === "stt" ? "transcription" : "speech"],
      model: { ref: engine, origin: "spec", served: "kokoro" },
    },
  };
}

export function upload(gateway: TestGateway, parts: readonly FormPart[], path = transcriptions): Promise<Response> {
  return fetch(new URL(path, gateway.url), {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b" },
    body: new Uint8Array(formBody("b", parts)),
  });
}
