import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
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
  // A download that is killed while its first bytes are still on their way has nothing to resume.
  for (let index = 0; index < kills || (resumed === 0 && index < 16); index++) {
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
  assert.ok(resumed > 0, "one had something to resume");
});

const killed = new URL("kill-program.ts", import.meta.url).pathname;

/** Runs a fetch that is killed before its Nth change of the file system. Resolves with the changes before that. */
async function changesUntil(count: number, modelsDir: string, sources: readonly string[]): Promise<readonly string[]> {
  const child = spawn(process.execPath, [killed, String(count), modelsDir, "m", ...sources], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (part: string) => void (text += part));
  const [code, signal] = await once(child, "close");
  assert.ok(signal === "SIGKILL" || code === 0, text);
  return text.split("\n").filter((line) => /^(?:rename|link|rm) /.test(line));
}

it("resumes after kill -9 between a content, its journal, the links and the ref of a model of two files", async () => {
  const bodies = [ggufOf(2 * mebibyte + 5), ggufOf(mebibyte + 9)] as const;
  await using server = await startFileServer({
    "/a.gguf": { body: bodies[0], etag: '"a"' },
    "/b.gguf": { body: bodies[1], etag: '"b"' },
  });
  const sources = ["a", "b"].map((name) => `${server.url}/${name}.gguf`);
  await using fileThread = new FileThread();
  let all: readonly string[];
  {
    await using directory = await tempDir();
    all = await changesUntil(0, directory.path, sources);
    const short = all.map((line) => line.replaceAll(directory.path, ""));
    for (const part of ["rename /.berth/blobs/", "link /.berth/models/", "rename /.berth/refs/", "rm /.berth/partial/"])
      assert.ok(
        short.some((line) => line.startsWith(part)),
        `${part} is among\n${short.join("\n")}`,
      );
  }
  for (let count = 1; count <= all.length; count++) {
    await using directory = await tempDir();
    const done = await changesUntil(count, directory.path, sources);
    const what = `killed before ${all[count - 1] ?? ""}`;
    assert.equal(done.length, count - 1, what);
    const store = await BlobStore.open(directory.path, "this boot");
    const check = async (): Promise<boolean> => {
      const model = store.find("m");
      if (model === undefined) return false;
      assert.deepEqual(await Promise.all(store.pathsOf(model).map((path) => readFile(path))), bodies, what);
      return true;
    };
    // A ref is whole as soon as it is there.
    await check();
    const network = { hub: hubFrom({}), connectMs: 60_000, stallMs: 60_000, retryMs: 20 };
    const rate = new RateLimit();
    const fetch = new ModelFetch({ store, fileThread, network, rate, reserveBytes: 0, connections: 2 });
    const wanted = { ref: "m", files: sources.map((source) => ({ source })), isOpen: false };
    const pulled = await fetch.fetch(wanted, newProgress(), new AbortController().signal);
    assert.equal(await check(), true);
    assert.deepEqual(
      pulled.files.map(({ sha256 }) => sha256),
      bodies.map((body) => sha256Of(body)),
      what,
    );
    assert.deepEqual(await store.leftovers(new Set()), [], what);
    const [first = ""] = store.pathsOf(pulled);
    assert.deepEqual((await readdir(dirname(first))).toSorted(), ["a.gguf", "b.gguf"], what);
  }
});
