import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { createServer } from "node:http";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { CommandError } from "../../../src/cli/client.ts";
import { copyTo, readSmall, sourceOf } from "../../../src/tools/release/source.ts";
import { listen } from "../../support/listen.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

describe("a file of a publisher", () => {
  it("is given up where its server says nothing, before its answer or in the middle of it", async () => {
    await using directory = await tempDir();
    await using server = createServer((request, response) => {
      if (request.url === "/middle") response.write("some");
    });
    const url = `http://127.0.0.1:${await listen(server)}`;
    try {
      for (const path of ["before", "middle"]) {
        const source = sourceOf(`${url}/${path}`);
        const copy = join(directory.path, "copy");
        for (const act of [
          async () => await readSmall(source, 1000, 200),
          async () => await copyTo(source, copy, { limitBytes: 1000, silentMs: 200 }),
        ]) {
          const error = await rejectionOf(act(), CommandError);
          assert.equal(error.code, "update.unreachable");
          assert.match(error.message, /\/(before|middle) cannot be read: .*Timeout/i);
          assert.equal(error.next, "check the network, then try again");
        }
      }
    } finally {
      server.closeAllConnections();
    }
  });

  it("is read whole where its server is faster than the disk", async () => {
    await using directory = await tempDir();
    await using server = createServer((_request, response) => {
      response.writeHead(200, { "content-length": "3000000" }).end(Buffer.alloc(3_000_000));
    });
    const source = sourceOf(`http://127.0.0.1:${await listen(server)}/berth.tar.gz`);
    const onSize = async (): Promise<void> => {
      const connections = async (): Promise<number> =>
        await new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
      await until("the server has sent all, and is gone", async () => (await connections()) === 0);
    };
    const { bytes } = await copyTo(source, join(directory.path, "copy"), { limitBytes: 3_000_000, onSize });
    assert.equal(bytes, 3_000_000);
  });

  it("is given up where the connection ends in the middle", async () => {
    await using directory = await tempDir();
    await using server = createServer((_request, response) => {
      response.writeHead(200, { "content-length": "1000000" });
      response.write(Buffer.alloc(500_000), () => response.destroy());
    });
    const source = sourceOf(`http://127.0.0.1:${await listen(server)}/berth.tar.gz`);
    const copy = copyTo(source, join(directory.path, "copy"), { limitBytes: 2_000_000 });
    const error = await rejectionOf(copy, CommandError);
    assert.equal(error.code, "update.unreachable");
    assert.match(error.message, /\/berth\.tar\.gz cannot be read: /);
  });

  it("is left alone where there is no room for it", async () => {
    await using directory = await tempDir();
    let isClosed = false;
    await using server = createServer((_request, response) => {
      response.on("close", () => (isClosed = true)).writeHead(200, { "content-length": "1000000" });
      response.write("some");
    });
    const source = sourceOf(`http://127.0.0.1:${await listen(server)}/berth.tar.gz`);
    const onSize = async (): Promise<void> => await Promise.reject(new Error("no room"));
    const copy = copyTo(source, join(directory.path, "copy"), { limitBytes: 2_000_000, onSize, silentMs: 600_000 });
    assert.equal((await rejectionOf(copy, Error)).message, "no room");
    try {
      await until("the connection is closed", () => isClosed);
    } finally {
      server.closeAllConnections();
    }
  });

  it("is not read where it goes before its first byte", async () => {
    await using directory = await tempDir();
    const file = join(directory.path, "file");
    await writeFile(file, "text");
    const onSize = async (): Promise<void> => {
      rmSync(file);
      await pause(50);
    };
    const error = await rejectionOf(
      copyTo(sourceOf(file), join(directory.path, "copy"), { limitBytes: 4, onSize }),
      CommandError,
    );
    assert.match(error.message, /file cannot be read: ENOENT/);
  });

  it("is copied from a path, and nothing but a file is", async () => {
    await using directory = await tempDir();
    const [file, copy] = [join(directory.path, "file"), join(directory.path, "copy")];
    await writeFile(file, "text");
    const { bytes } = await copyTo(sourceOf(file), copy, { limitBytes: 4 });
    assert.deepEqual([bytes, await readFile(copy, "utf8"), (await stat(copy)).mode & 0o077], [4, "text", 0]);
    await mkdir(join(directory.path, "directory"));
    const none = copyTo(sourceOf(join(directory.path, "directory")), copy, { limitBytes: 4 });
    assert.match((await rejectionOf(none, CommandError)).message, /directory is no file$/);
  });
});
