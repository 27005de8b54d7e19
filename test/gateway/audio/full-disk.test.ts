import assert from "node:assert/strict";
import { createServer } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { Charge } from "../../../src/gateway/admission/charge.ts";
import { openTranscription, type Transcription } from "../../../src/gateway/audio/transcription.ts";
import { formBody } from "../../support/form.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const roomy = new BufferBudget(1e9);
const charge = new Charge(roomy);
/** As much as an upload keeps in memory. */
const spoolMemoryBytes = 262_144;
const boundary = "x-boundary";

/** An upload of so many bytes of audio, as far as it is read. */
async function withUpload(
  spoolDir: string,
  size: number,
  run: (upload: Transcription) => Promise<void>,
): Promise<void> {
  const opened = Promise.withResolvers<Transcription>();
  const server = createServer((request) => {
    openTranscription(request, { bodyLimitBytes: 10_000_000, spoolDir, charge, spooled: roomy }).then(
      opened.resolve,
      opened.reject,
    );
  });
  try {
    const port = await listen(server);
    const parts = [
      { name: "model", value: "stt" },
      { name: "file", filename: "a.wav", value: Buffer.alloc(size) },
    ];
    const sent = fetch(`http://127.0.0.1:${port}/`, {
      method: "POST",
      body: new Uint8Array(formBody(boundary, parts)),
      headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
    }).catch(() => undefined);
    const upload = await opened.promise;
    await run(upload);
    await upload.discard();
    server.closeAllConnections();
    await sent;
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const lengthOf = (upload: Transcription): number | undefined => upload.forward("stt").headers["content-length"];

it("an upload of which only the last bytes cannot be kept is broken, and not whole", { timeout: 180_000 }, async () => {
  await using directory = await tempDir();
  const spoolDir = join(directory.path, "spool");
  // No directory can be made there, as on a disk that is full.
  await writeFile(spoolDir, "");
  let frame = 0;
  await withUpload(spoolDir, 1000, async (upload) => {
    frame = (await until("it is whole", () => lengthOf(upload))) - 1000;
  });
  // All fits into memory but the end of the form; what names the model is not spooled.
  const named =
    Buffer.byteLength('--\r\ncontent-disposition: form-data; name="model"\r\n\r\nstt\r\n') + "berth-".length + 32;
  await withUpload(spoolDir, spoolMemoryBytes - (frame - named) + 1, async (upload) => {
    await until("it is over", () => upload.broken.aborted || lengthOf(upload) !== undefined);
    assert.equal(upload.broken.aborted, true);
  });
});
