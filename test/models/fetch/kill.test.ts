import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { it } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FileThread } from "../../../src/models/fetch/file-thread.ts";
import { hubFrom } from "../../../src/models/fetch/hub.ts";
import { ModelFetch } from "../../../src/models/fetch/model-fetch.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { rangeOf, sha256Of, startFileServer } from "../../doubles/file-server.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { ggufOf, mebibyte } from "./site.ts";

/** `make test-pull` asks for more. */
const kills = Number(process.env["BERTH_TEST_KILLS"] ?? 4);
const program = new URL("program.ts", import.meta.url).pathname;

it(`resumes after kill -9 at ${kills} random bytes, with the right checksum each time`, async () => {
  const body = ggufOf(24 * mebibyte + 321);
  await using server = await startFileServer({ "/model.gguf": { body, etag: '"one"' } });
  const source = `${server.url}/model.gguf`;
  await using fileThread = new FileThread();
  let resumed = 0;
  for (let index = 0; index < kills; index++) {
    await using directory = await tempDir();
    const at = randomInt(1, body.length);
    const child = spawn(process.execPath, [program, directory.path, "m", source], { stdio: "ignore" });
    const exited = once(child, "exit");
    let left = at;
    server.behave = (request, response, serve, file) => {
      const range = file === undefined ? undefined : rangeOf(request, file.body);
      if (range === undefined) return serve();
      const [from, to] = range;
      response.writeHead(206, { etag: '"one"', "content-range": `bytes ${from}-${to - 1}/${body.length}` });
      const part = body.subarray(from, Math.min(to, from + left));
      left -= part.length;
      return response.write(part, () => void (left === 0 && child.kill("SIGKILL")));
    };
    const [, signal] = await exited;
    assert.equal(signal, "SIGKILL");
    server.behave = (_request, _response, serve) => serve();
    server.asked.length = 0;
    const store = await BlobStore.open(directory.path, "this boot");
    const network = { hub: hubFrom({}), connectMs: 60_000, stallMs: 60_000, retryMs: 20 };
    const fetch = new ModelFetch({
      store,
      fileThread,
      network,
      rate: new RateLimit(),
      reserveBytes: 0,
      connections: 2,
    });
    const wanted = { ref: "m", files: [{ source }], isOpen: false };
    const progress = newProgress();
    const pulled = await fetch.fetch(wanted, progress, new AbortController().signal);
    const what = `killed at byte ${at}`;
    assert.equal(pulled.files[0]?.sha256, sha256Of(body), what);
    assert.deepEqual(await readFile(store.pathsOf(pulled)[0] ?? ""), body, what);
    assert.deepEqual(await store.leftovers(new Set()), [], what);
    if (progress.receivedBytes < body.length) resumed += 1;
  }
  // The rest was killed while its first bytes were still on their way.
  assert.ok(resumed > 0 || kills < 4, `${resumed} of ${kills} had something to resume`);
});
