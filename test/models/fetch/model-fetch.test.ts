import assert from "node:assert/strict";
import { readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { it } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { writeTinyModel } from "../../../hack/tiny-model.ts";
import { linkTo, rangeOf, serveFile, sha256Of } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { contentRange, ggufOf, mebibyte, storeSite } from "./site.ts";

/** A hub whose files are at `/signed/<name>` of the same server. */
async function site(files: Readonly<Record<string, Buffer>>) {
  const at = await storeSite();
  at.server.behave = (request, response) => {
    const path = request.url ?? "";
    const body = files[path.split("/").at(-1) ?? ""];
    if (body !== undefined && path.includes("/resolve/")) linkTo(response, `/signed/${path.split("/").at(-1)}`, body);
    else serveFile(request, response, body === undefined ? undefined : { body });
  };
  const progress = newProgress();
  return {
    ...at,
    progress,
    signed: () => at.server.asked.filter(({ path }) => path.startsWith("/signed/")).length,
    folder: async (name: string) => await readdir(join(at.store.root, name)),
    /** The paths of the model's files. */
    fetch: async (model: Parameters<typeof at.fetch>[0]) => at.store.pathsOf(await at.fetch(model, progress)),
    refusal: async (model: Parameters<typeof at.fetch>[0]) => await rejectionOf(at.fetch(model), FetchError),
  };
}

const bytesOf = async (paths: readonly string[]): Promise<readonly Buffer[]> =>
  await Promise.all(paths.map((path) => readFile(path)));

const shards = ["tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf"];
const [one, two, projector] = [ggufOf(2 * mebibyte), ggufOf(mebibyte + 7), ggufOf(9000)];
const files = { "tiny-00001-of-00002.gguf": one, "tiny-00002-of-00002.gguf": two, "mmproj.gguf": projector };
const hubSources = [...shards, "mmproj.gguf"].map((name) => `hf://acme/tiny/${name}`);

it("fetches the shards and the projector of a model from one state of their repository", async () => {
  await using hub = await site(files);
  const paths = await hub.fetch({ ref: "acme/tiny:q4", sources: hubSources });
  assert.deepEqual(await bytesOf(paths), [one, two, projector]);
  assert.deepEqual(
    paths.map((path) => path.split("/").at(-1)),
    [...shards, "mmproj.gguf"],
  );
  const pulled = hub.store.find("acme/tiny:q4");
  assert.deepEqual(
    pulled?.files.map(({ sha256, sizeBytes, source }) => [sha256, sizeBytes, source]),
    [one, two, projector].map((body, index) => [sha256Of(body), body.length, hubSources[index]]),
  );
  const total = one.length + two.length + projector.length;
  assert.deepEqual([hub.progress.bytesDone, hub.progress.bytesTotal], [total, total]);
  const resolved = hub.server.asked.filter(({ path }) => path.includes("/resolve/")).map(({ path }) => path);
  assert.deepEqual(resolved, [
    `/acme/tiny/resolve/main/${shards[0]}`,
    `/acme/tiny/resolve/${"c".repeat(40)}/${shards[1]}`,
    `/acme/tiny/resolve/${"c".repeat(40)}/mmproj.gguf`,
  ]);
  assert.deepEqual(await hub.store.leftovers(new Set()), []);
});

it("two refs with the same content share a file, which is fetched once and kept as long as one of them", async () => {
  await using hub = await site(files);
  const sources = [hubSources[0] ?? ""];
  const [first = ""] = await hub.fetch({ ref: "a", sources });
  const before = hub.signed();
  const [second = ""] = await hub.fetch({ ref: "b", sources });
  assert.equal(hub.signed(), before);
  assert.equal((await stat(first)).ino, (await stat(second)).ino);
  assert.equal(await hub.store.remove("a"), 0);
  assert.deepEqual(await readFile(second), one);
  assert.equal(await hub.store.remove("b"), one.length);
  assert.deepEqual(await hub.folder("blobs"), []);
});

it("a ref whose content somebody has deleted keeps no other ref from being synced", async () => {
  await using hub = await site(files);
  await hub.fetch({ ref: "a", sources: hubSources.slice(0, 1) });
  await hub.fetch({ ref: "b", sources: hubSources.slice(1, 2) });
  await rm(hub.store.blobPath(sha256Of(one)));
  await assert.rejects(hub.store.sync(), { code: "ENOENT" });
  assert.deepEqual(
    ["a", "b"].map((ref) => hub.store.find(ref)?.isUnsynced),
    [true, undefined],
  );
});

it("a model without the file that its engine opens is not there", async () => {
  await using hub = await site(files);
  const sources = hubSources.slice(0, 1);
  const [path = ""] = await hub.fetch({ ref: "a", sources });
  const { store, hashThread } = hub;
  const fetch = { fetch: () => assert.fail("nothing is fetched"), discard: () => assert.fail("nothing is deleted") };
  const onError = (error: unknown): void => assert.fail(String(error));
  await using pulls = new ModelPulls({ store, fetch, hashThread, onError });
  const model = { ref: "a", files: sources.map((source) => ({ source })), isOpen: false };
  assert.equal(await pulls.isThere(model), true);
  await rm(path);
  assert.equal(await pulls.isThere(model), false);
  await hub.fetch({ ref: "a", sources });
  assert.equal(await pulls.isThere(model), true, "it was put back");
});

it("a fetch keeps a file that it shares with another ref when that ref is removed meanwhile", async () => {
  await using hub = await site(files);
  await hub.fetch({ ref: "b:1", sources: hubSources.slice(0, 1) });
  const { behave } = hub.server;
  let removed: Promise<number> | undefined;
  hub.server.behave = (...asked) => {
    if (asked[0].url === `/signed/${shards[1]}`) removed ??= hub.store.remove("b:1");
    void Promise.resolve(removed).then(() => behave(...asked));
  };
  const paths = await hub.fetch({ ref: "a:1", sources: hubSources.slice(0, 2) });
  assert.equal(await removed, 0, "nothing is freed");
  assert.deepEqual(await bytesOf(paths), [one, two]);
  assert.equal(await hub.store.remove("a:1"), one.length + two.length);
});

it("a ref that is fetched again has its new files and none of the old ones", async () => {
  await using hub = await site(files);
  await hub.fetch({ ref: "a", sources: hubSources });
  const paths = await hub.fetch({ ref: "a", sources: [hubSources[1] ?? ""] });
  assert.deepEqual(await readdir(join(paths[0] ?? "", "..")), [shards[1]]);
  const left = await hub.store.leftovers(new Set());
  assert.deepEqual(
    left.map(({ kind, sizeBytes }) => [kind, sizeBytes]).toSorted(([, a], [, b]) => Number(a) - Number(b)),
    [
      ["blob", projector.length],
      ["blob", one.length],
    ],
  );
});

it("a wrong checksum, a wrong size and two files of one name install nothing", async () => {
  await using hub = await site(files);
  const [source = ""] = hubSources;
  for (const [model, reason] of [
    [{ files: [{ source, sha256: "0".repeat(64) }] }, "ChecksumMismatch"],
    [{ sources: [source], sizeBytes: 5 }, "SizeMismatch"],
    [{ files: [{ source, as: "../x.gguf" }] }, "SourceRefused"],
    [{ files: [{ source: "file:///etc/passwd" }] }, "SourceRefused"],
  ] as const)
    assert.equal((await hub.refusal({ ref: "a", ...model })).reason, reason);
  const twice = await hub.refusal({ ref: "a", sources: [source, source] });
  assert.match(twice.message, /two files of the name tiny-00001/);
  assert.equal(hub.store.find("a"), undefined);
  assert.deepEqual(await hub.folder("models"), []);
});

it("what is no GGUF file under the name of one is an error, and nothing of it stays", async () => {
  const page = Buffer.from("<!doctype html><title>Sign in</title>");
  await using hub = await site({ "page.gguf": page, "short.GGUF": Buffer.from("GG"), "voice.bin": page });
  for (const name of ["page.gguf", "short.GGUF"]) {
    const source = `hf://acme/tiny/${name}`;
    const error = await hub.refusal({ ref: "a", sources: [source] });
    assert.deepEqual([error.reason, error.isTerminal], ["NotAModel", true]);
    assert.equal(
      error.message,
      `${source} is no GGUF file, as its name says: it does not begin with GGUF. What came was deleted`,
    );
    assert.equal(hub.store.find("a"), undefined);
  }
  assert.deepEqual(await hub.folder("blobs"), []);
  assert.deepEqual(await hub.folder("partial"), []);
  const [path = ""] = await hub.fetch({ ref: "b", sources: ["hf://acme/tiny/voice.bin"] });
  assert.deepEqual(await readFile(path), page);
});

it("a GGUF file that is cut off on the server is an error, and nothing of it stays", async () => {
  await using local = await tempDir();
  const path = join(local.path, "m.gguf");
  await writeTinyModel(path);
  const whole = await readFile(path);
  await using hub = await site({
    "data.gguf": whole.subarray(0, -1000),
    "header.gguf": whole.subarray(0, 100),
    "whole.gguf": whole,
  });
  const refusal = async (name: string): Promise<FetchError> =>
    await hub.refusal({ ref: "a", sources: [`hf://acme/tiny/${name}`] });
  const sum = `has ${whole.length - 1000} bytes on the server, and is incomplete: 1000 of ${whole.length} bytes are missing`;
  const data = await refusal("data.gguf");
  assert.deepEqual([data.reason, data.isTerminal], ["TruncatedModel", true]);
  assert.equal(data.message, `hf://acme/tiny/data.gguf ${sum}. What came was deleted`);
  assert.match(
    (await refusal("header.gguf")).message,
    /header\.gguf has 100 bytes on the server, and is incomplete: it ends/,
  );
  assert.equal(hub.store.find("a"), undefined);
  for (const folder of ["blobs", "partial"]) assert.deepEqual(await hub.folder(folder), []);
  await hub.fetch({ ref: "b", sources: ["hf://acme/tiny/whole.gguf"] });
});

it("after a power cut nothing is trusted that was not brought to the disk, and nothing is deleted without a record of the boot", async () => {
  await using hub = await site(files);
  const [modelsDir, boot] = [dirname(hub.store.root), join(hub.store.root, "boot")];
  const [first = "", second = ""] = hubSources;
  await hub.fetch({ ref: "kept", sources: [first] });
  await hub.store.sync();
  await hub.fetch({ ref: "shared", sources: [first] });
  await hub.fetch({ ref: "lost", sources: [second] });
  const refsAfter = async (named: string): Promise<readonly string[]> =>
    (await BlobStore.open(modelsDir, named)).list().map(({ ref }) => ref);
  await rm(boot);
  // A read at its beginning fails, of root too.
  await symlink("/proc/self/mem", boot);
  await assert.rejects(refsAfter("another boot"), { code: "EIO" });
  await rm(boot);
  await writeFile(boot, "this boot");
  assert.deepEqual((await refsAfter("this boot")).toSorted(), ["kept", "lost", "shared"]);
  assert.deepEqual(await refsAfter("another boot"), ["kept"]);
  assert.deepEqual(await hub.folder("blobs"), [`sha256-${sha256Of(one)}`]);
});

/** Once a part of the body was sent as `m.gguf`, the connection breaks and the hub has another file. */
function changing({ server }: Awaited<ReturnType<typeof site>>, body: Buffer, change: () => void): void {
  const { behave } = server;
  let gets = 0;
  server.behave = (request, response, ...rest) => {
    if (request.method !== "GET" || request.url !== "/signed/m.gguf" || ++gets > 1)
      return behave(request, response, ...rest);
    change();
    const [from, to] = rangeOf(request, body) ?? [0, body.length];
    response.writeHead(206, { "content-range": contentRange(from, to, body) });
    return response.write(body.subarray(from, from + mebibyte), () => response.destroy());
  };
}

it("a changed file of several begins the model again, and a changed file of a declared size is refused", async () => {
  const [before, after] = [ggufOf(2 * mebibyte), ggufOf(mebibyte + 5)];
  for (const [sources, sizeBytes, reason] of [
    [["hf://acme/tiny/m.gguf", "hf://acme/tiny/n.gguf"], undefined, "FetchFailed"],
    [["hf://acme/tiny/m.gguf"], before.length, "SizeMismatch"],
  ] as const) {
    const changed = { "m.gguf": before, "n.gguf": projector };
    await using hub = await site(changed);
    changing(hub, before, () => (changed["m.gguf"] = after));
    const model = { ref: "m", sources: [...sources], ...(sizeBytes === undefined ? {} : { sizeBytes }) };
    const error = await hub.refusal(model);
    assert.deepEqual([error.reason, error.isTerminal], [reason, reason === "SizeMismatch"]);
    if (sizeBytes === undefined) assert.equal((await hub.fetch(model)).length, 2);
  }
});
