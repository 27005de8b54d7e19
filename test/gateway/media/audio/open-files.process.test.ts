import assert from "node:assert/strict";
import { readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { startWhisperDouble } from "../../../doubles/whisper.ts";
import { startGateway } from "../../../support/gateway.ts";
import { until } from "../../../support/until.ts";
import { fileOf, model, slot, transcriptions, upload, wavOf } from "./gateway.ts";

it("an upload leaves no file open, however it ends", async () => {
  const file = fileOf(wavOf(1_000_000));
  await using engine = await startWhisperDouble({ path: transcriptions });
  await using gateway = await startGateway({ slots: { stt: slot("stt", engine.port) } });
  for (const parts of [
    [file, model],
    [file, { name: "model", value: "nobody" }],
    [file, { name: "model", value: "primary" }],
    [file, { name: "response_format", value: "xml" }],
    [file, file],
    [file],
  ])
    await (await upload(gateway, parts)).arrayBuffer();
  await until("all are closed", async () => {
    const fds = await readdir("/proc/self/fd");
    const targets = await Promise.all(fds.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
    return !targets.some((target) => target.startsWith(gateway.stateDir) && target.includes(".upload."));
  });
  assert.deepEqual(await readdir(join(gateway.stateDir, "spool")), []);
});
