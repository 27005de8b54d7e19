import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { it } from "node:test";
import { BufferBudget } from "../../../../src/gateway/slots/budget.ts";
import { Charge } from "../../../../src/gateway/slots/budget.ts";
import { openTranscription, type Transcription } from "../../../../src/gateway/media/audio/transcription.ts";
import { sendError, toApiError } from "../../../../src/gateway/http/answer.ts";
import { formBody } from "../../../support/form.ts";
import { listen } from "../../../support/listen.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { until } from "../../../support/until.ts";
import { fileOf, model, openUpload, wavOf } from "./gateway.ts";

const roomy = new BufferBudget(1e12);

/** A server that keeps uploads and forwards none. */
async function keeping(spoolDir: string, idleTimeoutMs = 60_000) {
  const uploads: Transcription[] = [];
  const server = createServer((request, response) => {
    openTranscription(request, {
      bodyLimitBytes: 1e8,
      spoolDir,
      charge: new Charge(roomy),
      spooled: roomy,
      idleTimeoutMs,
    })
      .then((upload) => {
        uploads.push(upload);
        upload.broken.addEventListener("abort", () => sendError(response, toApiError(upload.broken.reason), "test"));
      })
      .catch((error: unknown) => sendError(response, toApiError(error), "test"));
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  return {
    url,
    uploads,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      for (const upload of uploads) await upload.discard();
    },
  };
}

it("an upload is 408 when its sender stops sending, before its model is known and while it is held", async () => {
  await using directory = await tempDir();
  await using site = await keeping(directory.path, 50);
  for (const parts of [[fileOf(wavOf(100))], [model, fileOf(wavOf(100))]]) {
    const { request, status } = openUpload(site.url);
    request.write(formBody("b", parts).subarray(0, -3));
    assert.equal(await status, 408);
    request.destroy();
  }
});

it("an upload of which only the last bytes cannot be kept is broken, and not whole", async () => {
  await using directory = await tempDir();
  const spoolDir = join(directory.path, "spool");
  // No directory can be made there, as on a disk that is full.
  await writeFile(spoolDir, "");
  await using site = await keeping(spoolDir);
  const opened = async (size: number): Promise<Transcription> => {
    const before = site.uploads.length;
    openUpload(site.url).request.end(formBody("b", [model, fileOf(Buffer.alloc(size))]));
    return await until("its model is known", () => site.uploads[before]);
  };
  const lengthOf = (upload: Transcription): number | undefined => upload.forward("stt").headers["content-length"];
  const small = await opened(1000);
  const frame = (await until("it is whole", () => lengthOf(small))) - 1000;
  // All fits into the memory of an upload but the end of the form; what names the model is not spooled.
  const named = '--\r\ncontent-disposition: form-data; name="model"\r\n\r\nstt\r\n'.length + "berth-".length + 32;
  const upload = await opened(262_144 - (frame - named) + 1);
  await until("it is over", () => upload.broken.aborted || lengthOf(upload) !== undefined);
  assert.equal(upload.broken.aborted, true);
});
