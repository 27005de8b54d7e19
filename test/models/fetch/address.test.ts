import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { checkUrl, findAddress, type Address, type Network } from "../../../src/models/fetch/address.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { linkTo, sha256Of, startFileServer } from "../../doubles/file-server.ts";
import { rejectionOf, thrownBy } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { networkTo, webSource } from "./site.ts";

const body = randomBytes(5000);
const path = "/acme/tiny/resolve/main/tiny.gguf";

async function find(text: string, network: Network): Promise<Address> {
  return await findAddress(webSource(text, "hf", "https"), network, new AbortController().signal);
}

it("a hub's HEAD gives size, checksum and commit, and the target of its redirect gets no request", async () => {
  await using hub = await startFileServer();
  await using store = await startFileServer();
  hub.behave = (_request, response) => linkTo(response, `${store.url}/signed?key=1`, body);
  const found = await find("hf://acme/tiny/tiny.gguf", networkTo(hub.url, { HF_TOKEN: "hf_secret" }));
  assert.equal(found.url.href, `${store.url}/signed?key=1`);
  assert.deepEqual([found.sizeBytes, found.sha256, found.commit], [5000, sha256Of(body), "c".repeat(40)]);
  assert.deepEqual(hub.asked, [{ method: "HEAD", path, range: undefined, authorization: "Bearer hf_secret" }]);
  assert.deepEqual(store.asked, []);
  assert.deepEqual(found.headers, {}, "the token stays with the hub");
});

it("a redirect within the hub keeps the token, and a redirect to another host drops it", async () => {
  await using hub = await startFileServer();
  await using other = await startFileServer({ "/file": { body } });
  hub.behave = (request, response) => {
    const to = request.url === path ? "/renamed/tiny/resolve/main/tiny.gguf" : `${other.url}/file`;
    response.writeHead(307, { location: to }).end();
  };
  const found = await find("hf://acme/tiny/tiny.gguf", networkTo(hub.url, { HF_TOKEN: "hf_secret" }));
  assert.deepEqual(
    [...hub.asked, ...other.asked].map(({ path, authorization }) => [path, authorization]),
    [
      [path, "Bearer hf_secret"],
      ["/renamed/tiny/resolve/main/tiny.gguf", "Bearer hf_secret"],
      ["/file", undefined],
    ],
  );
  assert.deepEqual([found.sizeBytes, found.headers], [5000, {}]);
});

it("the token may lie in a file, which is read at each use", async () => {
  await using directory = await tempDir();
  await using hub = await startFileServer({ [path]: { body } });
  const file = join(directory.path, "token");
  const network = networkTo(hub.url, { HF_TOKEN_PATH: file });
  for (const token of ["hf_one", "hf_two"]) {
    await writeFile(file, `${token}\n`);
    await find("hf://acme/tiny/tiny.gguf", network);
  }
  assert.deepEqual(
    hub.asked.map(({ authorization }) => authorization),
    ["Bearer hf_one", "Bearer hf_two"],
  );
  await writeFile(file, "two\nlines");
  assert.match((await rejectionOf(find("hf://acme/tiny/tiny.gguf", network), FetchError)).message, /holds no token/);
});

it("a gated model says what to accept and where", async () => {
  await using hub = await startFileServer();
  const refusal = async (status: number, code: string, env: NodeJS.ProcessEnv = {}): Promise<FetchError> => {
    hub.behave = (_request, response) => response.writeHead(status, code === "" ? {} : { "x-error-code": code }).end();
    return await rejectionOf(find("hf://acme/tiny/tiny.gguf", networkTo(hub.url, env)), FetchError);
  };
  const gated = await refusal(401, "GatedRepo");
  assert.equal(gated.reason, "Unauthorized");
  assert.equal(
    gated.message,
    `acme/tiny asks for its terms to be accepted: open ${hub.url}/acme/tiny, accept them, and set HF_TOKEN to a token of that account`,
  );
  const token = { HF_TOKEN: "hf_x" };
  for (const [status, code, env, message] of [
    [403, "GatedRepo", token, /the account of HF_TOKEN may not read acme\/tiny: open/],
    [401, "RepoNotFound", {}, /or is private and needs HF_TOKEN/],
    [404, "EntryNotFound", {}, /acme\/tiny has no file tiny.gguf at main/],
    [404, "RevisionNotFound", {}, /acme\/tiny has no revision main/],
    [403, "", token, /the token of HF_TOKEN is not accepted/],
  ] as const)
    assert.match((await refusal(status, code, env)).message, message);
  assert.equal((await refusal(503, "")).isTerminal, false);
});

it("a server that refuses HEAD is asked for one byte", async () => {
  await using server = await startFileServer({ "/a.gguf": { body, etag: '"x"' } });
  server.behave = (request, response, serve) => (request.method === "HEAD" ? response.writeHead(405).end() : serve());
  const found = await find(`${server.url}/a.gguf`, networkTo(server.url));
  assert.deepEqual([found.sizeBytes, found.validator], [5000, '"x"']);
  assert.deepEqual(
    server.asked.map(({ method, range }) => [method, range]),
    [
      ["HEAD", undefined],
      ["GET", "bytes=0-0"],
    ],
  );
});

it("no redirect leads to this machine, to plain HTTP, or on for ever", async () => {
  await using server = await startFileServer();
  const network = networkTo(server.url);
  const open = { ...network, isOpen: true };
  const inner = await rejectionOf(find(`${server.url}/a.gguf`, open), FetchError);
  assert.equal(inner.reason, "SourceRefused");
  assert.match(inner.message, /is an address of this machine, which is not fetched from/);
  assert.deepEqual(server.asked, []);
  const hub = new URL("https://hub.example/a");
  for (const [to, why] of [
    ["https://169.254.169.254/latest", /hub.example redirects to this machine \(169.254.169.254\)/],
    ["https://[::1]/", /redirects to this machine/],
    ["https://localhost:8080/", /redirects to this machine/],
    ["http://other.example/", /redirects to plain http:\/\/other.example/],
    ["ftp://other.example/", /redirects to ftp:\/\/, which is not fetched/],
  ] as const) {
    assert.match(thrownBy(() => checkUrl(new URL(to), hub, false), FetchError).message, why);
  }
  server.behave = (request, response) => response.writeHead(302, { location: `${request.url}x` }).end();
  const loop = await rejectionOf(find(`${server.url}/a.gguf`, network), FetchError);
  assert.match(loop.message, /redirects more than 8 times/);
});
