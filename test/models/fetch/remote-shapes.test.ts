import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RemoteShapes } from "../../../src/models/fetch/remote-shapes.ts";
import type { ModelShape } from "../../../src/models/fit/shape.ts";
import { startFileServer, type FileServer } from "../../doubles/file-server.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { headerOf, type Shape } from "../../support/shaped-model.ts";
import { shapes } from "../../support/shapes.ts";
import { until } from "../../support/until.ts";
import { networkTo } from "./site.ts";

/** Small enough to be sent whole, so that a server which does not know ranges can be told apart. */
const sizes = { layers: 2, width: 256, feedForward: 512, heads: 4, keyValueHeads: 2, vocabulary: 2048 };
const small: Shape = { ...shapes.dense, ...sizes };

function fileOf(shape: Shape, split?: { readonly index: number; readonly count: number }): Buffer {
  const { header, sizeBytes } = headerOf(shape, split === undefined ? {} : { split });
  return Buffer.concat([header, Buffer.alloc(sizeBytes - header.length)]);
}

async function asked(
  server: FileServer,
  paths: readonly string[],
  { leastBytes = 0, limitMs = 60_000 } = {},
): Promise<ModelShape | undefined> {
  await using remote = new RemoteShapes({ network: networkTo(), leastBytes, limitMs });
  const told: string[] = [];
  using _ = remote.watch((requester) => told.push(requester));
  const model = { ref: "m", files: paths.map((path) => ({ source: `${server.url}${path}` })), isOpen: false };
  const before = server.asked.length;
  assert.deepEqual([remote.known(model, "a"), server.asked.length], ["unread", before], "a question reads nothing");
  remote.read(model, "a");
  assert.deepEqual([remote.known(model, "a"), remote.known(model, "b")], ["reading", "unread"]);
  remote.read(model, "b");
  await until("both are told", () => told.length === 2);
  const found = remote.known(model, "a");
  assert.ok(found !== "reading" && found !== "unread");
  return found;
}

describe("the shape of a model elsewhere", () => {
  it("is read from its header by ranges, and nothing of its weights is asked for", async () => {
    const body = fileOf({ ...small, width: 1024, feedForward: 4096 });
    await using server = await startFileServer({ "/m.gguf": { body, etag: '"1"' } });
    const found = await asked(server, ["/m.gguf"]);
    assert.deepEqual(found, await shapeFrom({ ...small, width: 1024, feedForward: 4096 }));
    const ranges = server.asked.filter(({ method, range }) => method === "GET" && range !== undefined);
    assert.deepEqual(
      ranges.map(({ range }) => range),
      ["bytes=0-2097151"],
    );
    assert.ok(body.length > 4 * 2_097_152, "of a file that is much larger");
  });

  it("covers all parts of a model together", async () => {
    const [one, two] = [0, 1].map((index) => ({ body: fileOf(small, { index, count: 2 }), etag: '"1"' }));
    assert.ok(one !== undefined && two !== undefined);
    await using server = await startFileServer({ "/m-00001-of-00002.gguf": one, "/m-00002-of-00002.gguf": two });
    const found = await asked(server, ["/m-00001-of-00002.gguf", "/m-00002-of-00002.gguf"]);
    assert.equal(found?.layers.length, 2);
    assert.deepEqual(found?.layers, (await shapeFrom(small)).layers);
  });

  it("is not read where the model is small, or not GGUF", async () => {
    const file = { body: fileOf(small), etag: '"1"' };
    await using server = await startFileServer({ "/m.gguf": file, "/m.bin": file });
    assert.equal(await asked(server, ["/m.gguf"], { leastBytes: file.body.length + 1 }), undefined);
    assert.equal(await asked(server, ["/m.bin"]), undefined);
    assert.deepEqual(
      server.asked.filter(({ range }) => range !== undefined),
      [],
    );
  });

  it("is unknown where the server has no ranges, no such file, or does not answer in time", async () => {
    const body = fileOf(small);
    await using server = await startFileServer({ "/m.gguf": { body, etag: '"1"' } });
    assert.equal(await asked(server, ["/absent.gguf"]), undefined);
    server.behave = (request, response, serve) => {
      if (request.method === "HEAD") return serve();
      response.writeHead(200, { "content-length": body.length });
      return response.end(body);
    };
    assert.equal(await asked(server, ["/m.gguf"]), undefined);
    server.behave = (request, _response, serve) => (request.method === "HEAD" ? serve() : undefined);
    assert.equal(await asked(server, ["/m.gguf"], { limitMs: 100 }), undefined);
  });
});
