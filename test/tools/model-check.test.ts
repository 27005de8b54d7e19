import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { list, record } from "../support/openai.ts";
import { runBerth } from "../support/command.ts";
import { linkTo, serveFile, startFileServer } from "../doubles/file-server.ts";

/** A hub that tells the size and the checksum of one file by HEAD, and refuses to give any byte away. */
async function startHub(name: string, sizeBytes: number) {
  const server = await startFileServer();
  server.behave = (request, response) => {
    if (request.url?.endsWith(`/${name}`) !== true) return serveFile(request, response, undefined);
    assert.equal(request.method, "HEAD");
    const told = Buffer.alloc(0);
    Object.defineProperty(told, "length", { value: sizeBytes });
    response.setHeader("x-linked-size", sizeBytes);
    return linkTo(response, `/signed/${name}`, told);
  };
  return server;
}

describe("berth model check", () => {
  it("asks for size and checksum, fetches nothing, and says what differs", async () => {
    await using hub = await startHub("Qwen3-0.6B-Q8_0.gguf", 639_000_000);
    const env = { HF_ENDPOINT: hub.url, PATH: process.env["PATH"] };
    const good = await runBerth(["model", "check", "qwen3-0.6b", "-o", "json"], env);
    assert.equal(good.code, 0, good.stderr);
    const [row] = list(record(JSON.parse(good.stdout))["data"]);
    assert.deepEqual([row?.["verdict"], row?.["size_bytes"], String(row?.["sha256"]).length], ["ok", 639_000_000, 64]);
    const lacking = await runBerth(["model", "check", "qwen3-0.6b", "qwen3-4b"], env);
    assert.equal(lacking.code, 1);
    assert.match(lacking.stdout, /^qwen3-0\.6b +ok .*\nqwen3-4b +unreachable /m);
    assert.match(lacking.stderr, /1 of 2 files are not as the catalogue says/);
  });

  it("finds a file of another size", async () => {
    await using hub = await startHub("Qwen3-0.6B-Q8_0.gguf", 900_000_000);
    const wrong = await runBerth(["model", "check", "qwen3-0.6b"], { HF_ENDPOINT: hub.url, PATH: process.env["PATH"] });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stdout, /differs .*it has 858\.3 MiB, the catalogue says about 610\.4 MiB/);
  });

  it("refuses a model that the catalogue does not have", async () => {
    const { code, stderr } = await runBerth(["model", "check", "nope"], { PATH: process.env["PATH"] });
    assert.equal(code, 1);
    assert.match(stderr, /the catalogue has no nope/);
  });
});
