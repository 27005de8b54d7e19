import assert from "node:assert/strict";
import { createServer } from "node:http";
import { it } from "node:test";
import { readForm } from "../../../../src/gateway/media/audio/transcription.ts";
import { sendError, toApiError } from "../../../../src/gateway/http/answer.ts";
import { BufferBudget, Charge } from "../../../../src/gateway/slots/budget.ts";
import { envelopeOf } from "../../../support/envelope.ts";
import { formBody } from "../../../support/form.ts";
import { listen } from "../../../support/listen.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { fileOf, model, openSite, openUpload, upload, wavOf } from "./gateway.ts";

it("an upload is 408 when its sender stops sending, within its fields and within its file, and leaves nothing", async () => {
  await using directory = await tempDir();
  const [memory, disk] = [new BufferBudget(1e12), new BufferBudget(1e12)];
  const server = createServer((request, response) => {
    const charge = new Charge(memory);
    const limits = { bodyBytes: 1e8, spoolDir: directory.path, charge, spooled: disk, idleTimeoutMs: 50 };
    readForm(request, limits)
      .catch((error: unknown) => sendError(response, toApiError(error), "test"))
      .finally(() => charge.end());
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  for (const parts of [[model], [model, fileOf(wavOf(100))]]) {
    const { request, status } = openUpload(url);
    request.write(formBody("b", parts).subarray(0, -8));
    assert.equal(await status, 408);
    assert.deepEqual([memory.usedBytes, disk.usedBytes], [0, 0]);
    request.destroy();
  }
  server.closeAllConnections();
  server.close();
});

it("no upload is taken where SVC_SPOOL_LIMIT is 0", async () => {
  await using site = await openSite({}, { SVC_SPOOL_LIMIT: "0" });
  const refused = await upload(site.gateway, [model, fileOf(wavOf(100))]);
  const { error } = await envelopeOf(refused);
  assert.deepEqual([refused.status, error.code], [503, "system.overloaded"]);
});
