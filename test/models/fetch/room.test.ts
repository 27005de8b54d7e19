import assert from "node:assert/strict";
import { it } from "node:test";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import type { IsNeeded } from "../../../src/models/fetch/model-fetch.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { rangeOf } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { contentRange, ggufOf, mebibyte, storeSite } from "./site.ts";

const [large, small] = [ggufOf(6 * mebibyte), ggufOf(2 * mebibyte)];

/** A server without checksums, and a disk with so many free bytes. */
async function site(freeMebibytes: number) {
  const disk = { freeMebibytes };
  const files = { "/large.gguf": { body: large, etag: '"l"' }, "/small.gguf": { body: small, etag: '"s"' } };
  const freeBytes = async (): Promise<number> => disk.freeMebibytes * mebibyte;
  const at = await storeSite(files, { reserveBytes: mebibyte, freeBytes, connections: 1 });
  const fetch = async (ref: string, names: readonly string[], progress = newProgress(), isNeeded?: IsNeeded) =>
    await at.fetch({ ref, sources: names.map((name) => `${at.server.url}/${name}.gguf`) }, progress, isNeeded);
  return { ...at, disk, fetch };
}

it("a file that came before counts as there, also where no checksum of it was known", async () => {
  await using at = await site(9);
  const { server, disk } = at;
  server.behave = (request, response, serve) =>
    request.url === "/small.gguf" && request.method === "GET" ? response.writeHead(500).end() : serve();
  const failed = await rejectionOf(at.fetch("both", ["large", "small"]), FetchError);
  assert.equal(failed.reason, "FetchFailed");
  server.behave = (_request, _response, serve) => serve();
  // The large file has taken its room.
  disk.freeMebibytes = 3;
  const { files } = await at.fetch("both", ["large", "small"]);
  assert.deepEqual(
    files.map(({ sizeBytes }) => sizeBytes),
    [large.length, small.length],
  );
});

it("the missing bytes of a model that is being fetched are no room for another one", async () => {
  await using at = await site(8);
  const { server } = at;
  const gate = Promise.withResolvers<void>();
  server.behave = async (request, response, serve, file) => {
    const range = file === undefined ? undefined : rangeOf(request, file.body);
    if (request.method !== "GET" || request.url !== "/large.gguf" || range === undefined) return serve();
    const [from, to] = range;
    response.writeHead(206, { etag: '"l"', "content-range": contentRange(from, to, large) });
    response.write(large.subarray(from, from + mebibyte));
    await gate.promise;
    return response.end(large.subarray(from + mebibyte, to));
  };
  const progress = newProgress();
  const first = at.fetch("first", ["large"], progress, () => true);
  await until("the first block is there", () => progress.bytesDone === mebibyte);
  at.disk.freeMebibytes = 7;
  const error = await rejectionOf(at.fetch("second", ["small"]), FetchError);
  assert.equal(error.reason, "NoSpace");
  assert.match(
    error.message,
    /^second does not fit on the disk of .*: 2097152 bytes are needed and 7340032 are free, of which 1048576 stay free, and 5242880 are for the models that are being fetched$/,
  );
  // What the first brings is not needed twice.
  const third = at.fetch("third", ["large"]);
  gate.resolve();
  assert.deepEqual((await third).files, (await first).files);
  assert.equal((await at.fetch("second", ["small"])).files.length, 1);
});
