import { request as httpRequest, type ClientRequest } from "node:http";
import { startWhisperDouble, type WhisperDoubleOptions } from "../../../doubles/whisper.ts";
import { formBody, type FormPart } from "../../../support/form.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../../../support/gateway.ts";

export const transcriptions = "/v1/audio/transcriptions";
export const field = (name: string, value: string): FormPart => ({ name, value });
export const model = field("model", "stt");

/** A file of audio, as far as its first bytes tell. */
export const wavOf = (bytes: number): Buffer =>
  Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(bytes, 3)]);
export const fileOf = (value: Buffer): FormPart => ({ name: "file", filename: "a.wav", type: "audio/wav", value });

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

/** The form of these parts, or these bytes. */
export function upload(
  gateway: TestGateway,
  parts: readonly FormPart[] | Buffer,
  path = transcriptions,
  headers: Record<string, string> = {},
): Promise<Response> {
  const body = Buffer.isBuffer(parts) ? parts : formBody("b", parts);
  return fetch(new URL(path, gateway.url), {
    method: "POST",
    headers: { "content-type": "multipart/form-data; boundary=b", ...headers },
    body: new Uint8Array(body),
  });
}

/** An upload whose body the test writes piece by piece. `status`: undefined where the connection breaks. */
export function openUpload(url: string): { request: ClientRequest; status: Promise<number | undefined> } {
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  const request = httpRequest(new URL(transcriptions, url), { method: "POST", headers });
  const status = new Promise<number | undefined>((resolve) => {
    request.once("response", (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on("error", () => resolve(undefined));
  });
  return { request, status };
}

/** A gateway with the slot stt, behind which is a double, or none yet: the slot is cold then. */
export async function openSite(
  double: WhisperDoubleOptions & { isCold?: boolean } = {},
  env: Record<string, string> = {},
) {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await startWhisperDouble({ path: transcriptions, ...double }));
  const port = double.isCold === true ? undefined : engine.port;
  const gateway = stack.use(await startGateway({ slots: { stt: slot("stt", port), tts: slot("tts") }, env }));
  const owned = stack.move();
  const warm = (): Promise<void> => gateway.publish("stt", slot("stt", engine.port));
  return { calls: engine.calls, gateway, warm, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
