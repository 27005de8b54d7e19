import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { runBerth, type Ended } from "../support/command.ts";
import { list, record } from "../support/openai.ts";
import { linkTo, serveFile, startFileServer } from "../doubles/file-server.ts";

/** `berth model check` by a hub that tells the size and the checksum of one file by HEAD, and gives no byte away. */
async function check(sizeBytes: number, ...words: readonly string[]): Promise<Ended> {
  await using server = await startFileServer();
  server.behave = (request, response) => {
    if (request.url?.endsWith("/Qwen3-0.6B-Q8_0.gguf") !== true) return serveFile(request, response, undefined);
    assert.equal(request.method, "HEAD");
    const told = Buffer.alloc(0);
    Object.defineProperty(told, "length", { value: sizeBytes });
    response.setHeader("x-linked-size", sizeBytes);
    return linkTo(response, "/signed/Qwen3-0.6B-Q8_0.gguf", told);
  };
  return await runBerth(["model", "check", ...words], { HF_ENDPOINT: server.url });
}

describe("berth model check", () => {
  it("asks for size and checksum, and fetches nothing", async () => {
    const good = await check(639_000_000, "qwen3-0.6b", "-o", "json");
    assert.equal(good.code, 0, good.stderr);
    const [row] = list(record(JSON.parse(good.stdout))["data"]);
    assert.deepEqual([row?.["verdict"], row?.["size_bytes"], String(row?.["sha256"]).length], ["ok", 639_000_000, 64]);
  });

  for (const [name, sizeBytes, models, stdout, stderr] of [
    [
      "finds a file that is not there",
      639_000_000,
      ["qwen3-0.6b", "qwen3-4b"],
      /^qwen3-0\.6b +ok .*\nqwen3-4b +unreachable /m,
      /1 of 2 files are not as the catalogue says/,
    ],
    [
      "finds a file of another size",
      900_000_000,
      ["qwen3-0.6b"],
      /differs .*it has 858\.3 MiB, the catalogue says about 610\.4 MiB/,
      /1 of 1 files? (?:is|are) not as the catalogue says/,
    ],
    ["refuses a model that the catalogue does not have", 1, ["nope"], /^$/, /the catalogue has no nope/],
  ] as const)
    it(name, async () => {
      const ended = await check(sizeBytes, ...models);
      assert.equal(ended.code, 1);
      assert.match(ended.stdout, stdout);
      assert.match(ended.stderr, stderr);
    });
});
