import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { startComfyDouble } from "../doubles/comfyui.ts";
import { envelopeOf } from "../support/envelope.ts";
import { formBody } from "../support/form.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";

/** Lines of the log at the level of an error. */
function faults(gateway: TestGateway): readonly Record<string, unknown>[] {
  const lines = gateway
    .log()
    .split("\n")
    .flatMap((line): unknown[] => (line === "" ? [] : [JSON.parse(line)]));
  return lines.filter(isRecord).filter(({ level }) => Number(level) >= 50);
}

/** That the client learns nothing, and the log everything, of a file in the way of a directory. */
async function assertLogged(gateway: TestGateway, response: Response, directory: string): Promise<void> {
  assert.equal(response.status, 500);
  const { error } = await envelopeOf(response);
  assert.deepEqual([error.code, error.message], ["system.internal", "Something failed inside the service"]);
  const id = response.headers.get("x-request-id");
  const [line, ...others] = faults(gateway).filter(({ requestId }) => requestId === id);
  assert.deepEqual(others, []);
  assert.ok(isRecord(line?.["err"]));
  assert.match(String(line["err"]["message"]), new RegExp(`^(EEXIST|ENOTDIR): .*${directory}`));
  assert.match(String(line["err"]["stack"]), /\n {4}at /);
}

it("the log has the cause, which no client sees, of uploads and images that cannot be stored", async () => {
  await using engine = await startComfyDouble();
  const model = { ref: "sdxl-turbo", origin: "spec", served: "sdxl-turbo" } as const;
  const spec = { engine: "image", model: { default: "sdxl-turbo" } } as const;
  await using gateway = await startGateway({
    slots: {
      stt: { spec: { engine: "stt" }, status: { capabilities: ["transcription"] } },
      img: { port: engine.port, spec, status: { capabilities: ["image"], model } },
    },
  });
  for (const name of ["spool", "images"]) await writeFile(join(gateway.stateDir, name), "in the way");
  const audio = Buffer.concat([Buffer.from("RIFF\u0000\u0000\u0000\u0000WAVE", "latin1"), Buffer.alloc(3_000_000)]);
  const form = formBody("b", [
    { name: "model", value: "stt" },
    { name: "file", filename: "a.wav", value: audio },
  ]);
  const headers = { "content-type": "multipart/form-data; boundary=b" };
  const upload = await gateway.post("/v1/audio/transcriptions", "", { headers, body: new Uint8Array(form) });
  await assertLogged(gateway, upload, "spool");
  await assertLogged(gateway, await gateway.post("/v1/images/generations", { model: "img", prompt: "x" }), "images");
  const { length } = faults(gateway);
  await gateway.post("/v1/chat/completions", { model: "nobody" });
  await gateway.post("/v1/chat/completions", "{");
  assert.equal(faults(gateway).length, length, "an error that a client has caused is none of ours");
});
