import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { it } from "node:test";
import { sha256 } from "../../../src/lib/canonical.ts";
import { BlobStore, storeDirectory } from "../../../src/models/fetch/blob-store.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { readPartial } from "../../../src/models/fetch/partial-record.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { rangeOf, sha256Of, startFileServer } from "../../doubles/file-server.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { contentRange, ggufOf, mebibyte, modelFetch } from "./site.ts";

/** `make test-pull` asks for more, and for a kill at every change of the file system. */
const { BERTH_TEST_KILLS: asked } = process.env;
const kills = Number(asked ?? 1);
const program = new URL("program.ts", import.meta.url).pathname;
const killed = new URL("kill-program.ts", import.meta.url).pathname;

async function hasMark(modelsDir: string, source: string): Promise<boolean> {
  const directory = join(modelsDir, storeDirectory, "partial", sha256(source).slice(0, 32));
  return ((await readPartial(directory))?.marks[0] ?? 0) > 0;
}

/** Fetches the model of these sources once more, which must leave nothing behind. */
async function fetchedAgain(store: BlobStore, sources: readonly string[], bodies: readonly Buffer[], what: string) {
  await using hashThread = new HashThread();
  const wanted = { ref: "m", files: sources.map((source) => ({ source })), isOpen: false };
  const progress = newProgress();
  const pulled = await modelFetch(store, hashThread).fetch(wanted, progress, new AbortController().signal);
  const sums = pulled.files.map(({ sha256 }) => sha256);
  assert.deepEqual(sums, bodies.map(sha256Of), what);
  const paths = store.pathsOf(pulled);
  assert.deepEqual(await Promise.all(paths.map((path) => readFile(path))), bodies, what);
  assert.deepEqual(await store.leftovers(new Set()), [], what);
  return { paths, progress };
}

it(`resumes after kill -9 at ${kills} random bytes, with the right checksum each time`, async () => {
  const body = ggufOf(24 * mebibyte + 321);
  // One kill should have something to resume: it comes after more than the sockets between the two may hold.
  const isLate = asked === undefined;
  const earliest = isLate ? body.length / 2 : 1;
  await using server = await startFileServer({ "/model.gguf": { body, etag: '"one"' } });
  const source = `${server.url}/model.gguf`;
  let resumed = 0;
  for (let index = 0; index < kills; index++) {
    await using directory = await tempDir();
    const at = randomInt(Math.ceil(earliest), body.length);
    const child = spawn(process.execPath, [program, directory.path, "m", source], { stdio: "ignore" });
    const exited = once(child, "exit");
    let left = at;
    server.behave = async (request, response, serve, file) => {
      const range = file === undefined ? undefined : rangeOf(request, file.body);
      if (range === undefined) return serve();
      const [from, to] = range;
      response.writeHead(206, { etag: '"one"', "content-range": contentRange(from, to, body) });
      const part = body.subarray(from, Math.min(to, from + left));
      left -= part.length;
      await new Promise<void>((resolve) => response.write(part, () => resolve()));
      if (left > 0) return;
      if (isLate) await until("some bytes are safe", async () => await hasMark(directory.path, source));
      child.kill("SIGKILL");
    };
    assert.equal((await exited)[1], "SIGKILL");
    server.behave = (_request, _response, serve) => serve();
    const store = await BlobStore.open(directory.path, "this boot");
    const { progress } = await fetchedAgain(store, [source], [body], `killed at byte ${at}`);
    if (progress.receivedBytes < body.length) resumed += 1;
  }
  assert.ok(resumed > 0, "one had something to resume");
});

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

it("resumes after kill -9 between a content, its record, the links and the ref of a model of two files", async () => {
  const bodies = [ggufOf(mebibyte + 5), ggufOf(mebibyte + 9)];
  const [a, b] = bodies.map((body, nth) => ({ body, etag: `"${nth}"` }));
  assert.ok(a !== undefined && b !== undefined);
  await using server = await startFileServer({ "/a.gguf": a, "/b.gguf": b });
  const sources = ["a", "b"].map((name) => `${server.url}/${name}.gguf`);
  await using first = await tempDir();
  const all = await changesUntil(0, first.path, sources);
  /** The change and its folder in the store. */
  const kinds = all.map((line) => line.replace(`${first.path}/.berth/`, "").replace(/\/.*/, ""));
  // Between a content and its record, that and the links, the links and the ref, the ref and the last removal.
  const moments = ["rename partial", "link models", "rename refs", "rm partial"].map((kind) => kinds.indexOf(kind));
  assert.ok(!moments.includes(-1), all.join("\n"));
  for (const index of asked === undefined ? moments : all.keys()) {
    await using directory = await tempDir();
    const done = await changesUntil(index + 1, directory.path, sources);
    const what = `killed before ${all[index] ?? ""}`;
    assert.equal(done.length, index, what);
    const store = await BlobStore.open(directory.path, "this boot");
    // A ref is whole as soon as it is there.
    const model = store.find("m");
    const paths = model === undefined ? [] : store.pathsOf(model);
    const found = await Promise.all(paths.map((path) => readFile(path)));
    assert.deepEqual(found, model === undefined ? [] : bodies, what);
    const again = await fetchedAgain(store, sources, bodies, what);
    assert.deepEqual((await readdir(dirname(again.paths[0] ?? ""))).toSorted(), ["a.gguf", "b.gguf"], what);
  }
});
