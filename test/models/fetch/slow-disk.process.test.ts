import assert from "node:assert/strict";
import { open, readFile, type FileHandle } from "node:fs/promises";
import { it } from "node:test";
import { download } from "../../../src/models/fetch/download.ts";
import { readPartial } from "../../../src/models/fetch/partial-record.ts";
import { rangeOf, type Behaviour } from "../../doubles/file-server.ts";
import { until } from "../../support/until.ts";
import { contentRange, fetchSite, mebibyte } from "./site.ts";

await using anyFile = await open("/dev/null");
/** The functions of all open files. */
const files: FileHandle = Object.getPrototypeOf(anyFile);
// oxlint-disable-next-line typescript/unbound-method -- called for their files below
const { write, datasync } = files;

/** Sends many small chunks, up to a position in the file and no further. */
function inChunks(body: Buffer, end: number): Behaviour {
  return (request, response, serve) => {
    if (request.method !== "GET") return serve();
    const [from, to] = rangeOf(request, body) ?? [0, body.length];
    response.writeHead(206, { etag: '"one"', "content-range": contentRange(from, to, body) });
    let at = from;
    const send = (): void => {
      while (at < Math.min(to, end)) {
        const part = body.subarray(at, Math.min(to, end, at + 1000));
        at += part.length;
        if (!response.write(part)) return void response.once("drain", send);
      }
      if (end >= to) response.end();
    };
    return send();
  };
}

it("a file comes whole where a connection waits for a slow disk", async (context) => {
  await using site = await fetchSite();
  const { server, body, progress } = site;
  server.behave = inChunks(body, body.length);
  // No byte is on the disk before the connection has hardly any room left in the second buffer, and waits.
  context.mock.method(files, "write", async function (this: FileHandle, ...args: Parameters<typeof write>) {
    await until("the connection waits", () => progress.receivedBytes >= 1.75 * mebibyte);
    return await write.apply(this, args);
  });
  const found = await download(site.options({ connections: 1 }));
  assert.deepEqual(await readFile(found.path), body);
});

it("no byte counts as received before it was synced: the record waits for the disk", async (context) => {
  await using site = await fetchSite();
  const { server, body, progress } = site;
  server.behave = inChunks(body, 3 * mebibyte + 5);
  const synced = Promise.withResolvers<void>();
  context.mock.method(files, "datasync", async function (this: FileHandle) {
    await synced.promise;
    await datasync.call(this);
  });
  const stop = new AbortController();
  const options = site.options({ connections: 1, signal: stop.signal });
  const ended = assert.rejects(download(options), /stopped/);
  await until("three blocks are written", () => progress.bytesDone === 3 * mebibyte);
  stop.abort(new Error("stopped"));
  assert.deepEqual((await readPartial(options.directory))?.marks, []);
  synced.resolve();
  await ended;
  assert.deepEqual((await readPartial(options.directory))?.marks, [3 * mebibyte]);
});
