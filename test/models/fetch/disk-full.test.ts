import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import { download } from "../../../src/models/fetch/download.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { readPartial } from "../../../src/models/fetch/partial-record.ts";
import { rangeOf, sha256Of } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { contentRange, fetchSite, mebibyte } from "./site.ts";

const run = promisify(execFile);
const isRoot = process.getuid?.() === 0;

it(
  "a disk that fills up during a fetch ends the attempt, and the next attempt continues once there is room",
  { skip: isRoot ? false : "mounting a small tmpfs needs root" },
  async () => {
    await using site = await fetchSite(8 * mebibyte);
    const { server, body } = site;
    const small = join(site.directory, "small");
    await mkdir(small);
    await run("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", small]);
    try {
      const directory = join(small, "partial");
      // Room for all of it when it begins: somebody else takes it while the file comes.
      server.behave = async (request, response, serve) => {
        if (request.method === "HEAD") return serve();
        const [from, to] = rangeOf(request, body) ?? [0, body.length];
        response.writeHead(206, { etag: '"one"', "content-range": contentRange(from, to, body) });
        response.write(body.subarray(from, 2 * mebibyte));
        await until("some bytes are safe", async () => ((await readPartial(directory))?.marks[0] ?? 0) > 0);
        await run("mount", ["-o", "remount,size=5m", small]);
        response.end(body.subarray(2 * mebibyte, to));
      };
      const error = await rejectionOf(download(site.options({ directory })), FetchError);
      assert.equal(error.reason, "NoSpace");
      assert.equal(error.isTerminal, false);
      assert.match(error.message, /does not fit on the disk of .*: the disk is full/);
      await run("mount", ["-o", "remount,size=16m", small]);
      server.behave = (_request, _response, serve) => serve();
      const before = site.progress.receivedBytes;
      const found = await download(site.options({ directory }));
      assert.equal(found.sha256, sha256Of(body));
      assert.ok(site.progress.receivedBytes - before < body.length, "what is safe is not fetched again");
    } finally {
      await run("umount", [small]);
    }
  },
);

it(
  "a reserve that is used up during a fetch ends the attempt before the disk is full",
  { skip: isRoot ? false : "mounting a small tmpfs needs root" },
  async () => {
    await using site = await fetchSite(34 * mebibyte);
    const small = join(site.directory, "small");
    await mkdir(small);
    await run("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", small]);
    try {
      const resized = async (size: string): Promise<void> =>
        void (await run("mount", ["-o", `remount,size=${size}`, small]));
      let gets = 0;
      site.server.behave = async (request, _response, serve) => {
        if (request.method === "GET" && ++gets === 1) await resized("40m");
        serve();
      };
      const options = { directory: join(small, "partial"), reserveBytes: 8 * mebibyte, connections: 1 };
      const error = await rejectionOf(download(site.options(options)), FetchError);
      assert.deepEqual([error.reason, error.isTerminal, gets], ["NoSpace", false, 1]);
      assert.match(error.message, /2097152 bytes are needed and \d+ are free, of which 8388608 stay free$/);
      await resized("64m");
      const before = site.progress.receivedBytes;
      assert.equal((await download(site.options(options))).sha256, sha256Of(site.body));
      assert.equal(site.progress.receivedBytes - before, 2 * mebibyte, "what had come is not fetched again");
    } finally {
      await run("umount", [small]);
    }
  },
);
