import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { listHub, listingOf, quantizationIn } from "../../../src/models/fetch/hub-listing.ts";
import { startFileServer } from "../../doubles/file-server.ts";
import { networkTo } from "./site.ts";

const { signal } = new AbortController();
const repository = { owner: "o", repo: "r", revision: "main" };

/** A DOUBLE of the hub, which answers each request for a list of files. */
async function hub(answer: (response: ServerResponse, url: URL) => unknown) {
  const server = await startFileServer();
  server.behave = (request, response) => void answer(response, new URL(request.url ?? "/", server.url));
  return server;
}

const file = (path: string, size: number): object => ({ type: "file", path, size, oid: "0", lfs: { size } });
const json = (response: ServerResponse, value: unknown, headers: Record<string, string> = {}): unknown =>
  response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));

it("lists the models of every page with quantisation and size, shards as one and projectors last", async () => {
  await using server = await hub((response, url) =>
    url.searchParams.has("cursor")
      ? json(response, [file("big/r-Q8_0-00002-of-00002.gguf", 50), file("mmproj-r-F16.gguf", 7)])
      : json(
          response,
          [
            { type: "directory", path: "big", size: 0 },
            file("README.md", 10),
            file("r-Q4_K_M.gguf", 40),
            file("big/r-Q8_0-00001-of-00002.gguf", 30),
            file("lost-Q2_K-00001-of-00002.gguf", 1),
            { type: "file", path: "odd.gguf" },
            file("../out.gguf", 1),
          ],
          { link: `<${url.href}&cursor=x>; rel="next"` },
        ),
  );
  const network = networkTo(server.url, { HF_TOKEN: "secret" });
  assert.deepEqual(await listHub({ ...repository, revision: "refs/pr/1" }, network, signal), {
    models: [
      { paths: ["r-Q4_K_M.gguf"], quantization: "Q4_K_M", sizeBytes: 40 },
      {
        paths: ["big/r-Q8_0-00001-of-00002.gguf", "big/r-Q8_0-00002-of-00002.gguf"],
        quantization: "Q8_0",
        sizeBytes: 80,
      },
      { paths: ["mmproj-r-F16.gguf"], quantization: "F16", sizeBytes: 7, isProjector: true },
    ],
    leftOut: 0,
  });
  assert.deepEqual(
    server.asked.map(({ path, authorization }) => [path, authorization]),
    Array.from({ length: 2 }, () => ["/api/models/o/r/tree/refs%2Fpr%2F1", "Bearer secret"]),
  );
});

it("follows a renamed repository, and no redirect to another server", async () => {
  await using other = await hub((response) => json(response, []));
  await using server = await hub((response, url) => {
    const to = url.pathname.includes("/old/") ? "/api/models/o/r/tree/main?recursive=true" : `${other.url}/x`;
    if (url.pathname.includes("/r/")) json(response, [file("a.gguf", 1)]);
    else response.writeHead(307, { location: to }).end();
  });
  const found = await listHub({ ...repository, repo: "old" }, networkTo(server.url), signal);
  assert.deepEqual(found.models, [{ paths: ["a.gguf"], sizeBytes: 1 }]);
  await assert.rejects(
    listHub({ ...repository, repo: "away" }, networkTo(server.url), signal),
    /leads to another server/,
  );
  assert.deepEqual(other.asked, []);
});

describe("a repository that cannot be listed", () => {
  for (const [what, answer, reason, message] of [
    [
      "is unknown",
      (response: ServerResponse) => response.writeHead(401, { "x-error-code": "RepoNotFound" }).end(),
      "SourceNotFound",
      /\/o\/r has no such file or repository, or is private and needs HF_TOKEN$/,
    ],
    [
      "has no such revision",
      (response: ServerResponse) => response.writeHead(404, { "x-error-code": "RevisionNotFound" }).end(),
      "SourceNotFound",
      /^o\/r has no revision main/,
    ],
    [
      "is not wanted too often",
      (response: ServerResponse) => response.writeHead(429, { "retry-after": "9" }).end(),
      "FetchFailed",
      /answers HTTP 429; it asks to wait 9 s$/,
    ],
    ["is a page", (response: ServerResponse) => response.end("<html>"), "FetchFailed", /is HF_ENDPOINT a hub\?$/],
    [
      "has a list without an end",
      (response: ServerResponse) => response.end(Buffer.alloc(5 * 1024 * 1024, " ")),
      "FetchFailed",
      /is too long$/,
    ],
  ] as const) {
    it(what, async () => {
      await using server = await hub(answer);
      await assert.rejects(listHub(repository, networkTo(server.url), signal), { name: "FetchError", reason, message });
    });
  }

  it("is on a hub that cannot be reached: one line says what to check", async () => {
    await assert.rejects(listHub(repository, networkTo("http://127.0.0.1:1"), signal), {
      name: "FetchError",
      reason: "FetchFailed",
      message:
        "127.0.0.1:1 cannot be reached: it refuses the connection (ECONNREFUSED); check the network, DNS and the proxy (HTTPS_PROXY), and HF_ENDPOINT",
    });
  });
});

it("lists so many models at most, and says how many are left out", () => {
  const files = new Map(Array.from({ length: 300 }, (_, index) => [`m${index}.gguf`, index] as const));
  const { models, leftOut } = listingOf(files);
  assert.deepEqual([models.length, leftOut], [200, 100]);
});

describe("the quantisation in a file's name", () => {
  for (const [stem, quantization] of [
    ["Qwen3-4B-Q4_K_M", "Q4_K_M"],
    ["qwen2.5-7b-instruct-q4_k_m", "Q4_K_M"],
    ["model.IQ3_XXS", "IQ3_XXS"],
    ["m-UD-Q4_K_XL", "UD-Q4_K_XL"],
    ["gpt-oss-20b-MXFP4", "MXFP4"],
    ["m-BF16", "BF16"],
    ["m-i1-Q4_0", "Q4_0"],
    ["Q8_0/m", "Q8_0"],
    ["m", undefined],
  ] as const)
    it(`${stem}: ${String(quantization)}`, () => assert.equal(quantizationIn(stem), quantization));
});
