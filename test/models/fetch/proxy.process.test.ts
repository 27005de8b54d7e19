import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { before, it } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { findAddress } from "../../../src/models/fetch/address.ts";
import { download } from "../../../src/models/fetch/download.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { newProgress } from "../../../src/models/fetch/progress.ts";
import { proxiesFrom } from "../../../src/models/fetch/proxies.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { transfer, TransferError } from "../../../src/models/fetch/transfer.ts";
import { InnerAddress, outerLookup } from "../../../src/lib/inner-addresses.ts";
import { serveFile, sha256Of } from "../../doubles/file-server.ts";
import { startProxy } from "../../doubles/proxy.ts";
import { certificate } from "../../support/certificate.ts";
import { listen } from "../../support/listen.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";
import { networkTo, webSource } from "./site.ts";

it("names the variable whose user or password cannot be decoded, and not its value", () => {
  const proxies = proxiesFrom({ HTTPS_PROXY: "http://user:100%@proxy.test:3128" });
  const message = "HTTPS_PROXY has a user or password that cannot be decoded: write a % in it as %25";
  assert.throws(() => proxies(new URL("https://hub.test/")), { name: "FetchError", message });
  const written = proxiesFrom({ HTTPS_PROXY: "http://user:100%25@proxy.test:3128" })(new URL("https://hub.test/"));
  assert.equal(written?.authorization, `Basic ${Buffer.from("user:100%").toString("base64")}`);
});

const body = randomBytes(3 * 1024 * 1024 + 17);
const { signal } = new AbortController();

/** A TLS server, as `hub.test` only a proxy reaches it. */
async function site() {
  await using stack = new AsyncDisposableStack();
  const server = createServer(certificate, (request, response) =>
    serveFile(request, response, request.url === "/model.gguf" ? { body, etag: '"1"' } : undefined),
  );
  const port = await listen(server);
  stack.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const proxy = stack.use(await startProxy(() => port));
  const directory = stack.use(await tempDir());
  const hashThread = stack.use(new HashThread());
  const owned = stack.move();
  return {
    proxy,
    port,
    /** Fetches the file by the proxies of these variables. */
    fetch: async (env: NodeJS.ProcessEnv, isOpen = false) => {
      const text = "https://hub.test/model.gguf";
      const source = webSource(text);
      const network = { ...networkTo(), isOpen, proxies: proxiesFrom(env) };
      const limits = { rate: new RateLimit(), reserveBytes: 0, connections: 2 };
      const into = join(directory.path, "partial");
      const job = { text, source, directory: into, expected: {}, progress: newProgress(), signal };
      return await download({ ...job, ...limits, network, hashThread });
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

before(() => setDefaultCACertificates([...getCACertificates("default"), certificate.cert]));

it("a file is fetched over TLS through a proxy, by ranges and with the proxy's credentials", async () => {
  await using at = await site();
  const { path, sha256 } = await at.fetch({ HTTPS_PROXY: `http://me:p%40ss@127.0.0.1:${at.proxy.port}` });
  assert.equal(sha256, sha256Of(body));
  assert.deepEqual(await readFile(path), body);
  assert.ok(at.proxy.asked.length > 1 && at.proxy.asked.every((asked) => asked === "CONNECT hub.test:443"));
  assert.equal(at.proxy.authorization, `Basic ${Buffer.from("me:p@ss").toString("base64")}`);
  await until("no connection stays open", () => at.proxy.open.size === 0);
});

it("a file is read over TLS without a proxy, into the memory of its reader", async () => {
  await using at = await site();
  const into = Buffer.alloc(body.length);
  let size = 0;
  let inPlace = 0;
  await transfer(
    {
      method: "GET",
      url: new URL(`https://hub.test:${at.port}/model.gguf`),
      headers: {},
      lookup: (_host, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]),
      connectMs: 60_000,
      stallMs: 60_000,
      signal,
    },
    {
      onHead: ({ status }) => status === 200,
      room: () => into.subarray(size, size + 100_000),
      onData: (chunk) => {
        if (chunk.buffer === into.buffer) inPlace += chunk.length;
        else chunk.copy(into, size);
        size += chunk.length;
        return true;
      },
    },
  );
  assert.deepEqual(into, body);
  assert.ok(inPlace > body.length / 2, `${inPlace} of ${size} bytes were read in place`);
});

it("a proxy that refuses is named with the remedy, and its password is not", async () => {
  await using at = await site();
  at.proxy.refusal = 407;
  const proxy = `http://me:secret@127.0.0.1:${at.proxy.port}`;
  const { message } = await rejectionOf(at.fetch({ https_proxy: proxy }), FetchError);
  assert.match(message, /the proxy 127\.0\.0\.1:\d+ refuses to connect to hub\.test:443 \(HTTP 407\): it asks for/);
  assert.doesNotMatch(message, /secret/);
  const wrong = await rejectionOf(at.fetch({ HTTPS_PROXY: "socks5://secret@h" }), FetchError);
  assert.deepEqual(
    [wrong.reason, wrong.message],
    ["SourceRefused", "HTTPS_PROXY is no http:// or https:// URL of a proxy"],
  );
});

it("plain HTTP is asked of the proxy itself, and this machine never is", async () => {
  await using at = await site();
  const proxies = proxiesFrom({ HTTP_PROXY: `127.0.0.1:${at.proxy.port}` });
  const plain = { ...webSource("https://unused.test/x"), url: new URL("http://hub.test/model.gguf") };
  // The double forwards plain HTTP to a TLS server, which breaks off: that it was asked is what counts.
  await findAddress(plain, { ...networkTo(), proxies }, signal).catch(() => undefined);
  assert.deepEqual(at.proxy.asked, ["HEAD http://hub.test/model.gguf"]);
  assert.equal(proxies(new URL("http://127.0.0.1:9/x")), undefined);
  assert.equal(proxies(new URL("http://localhost/x")), undefined);
});

it("NO_PROXY names hosts, domains, ports and networks", () => {
  const isProxied = (url: string, exceptions: string): boolean =>
    proxiesFrom({ ALL_PROXY: "http://p:3128", NO_PROXY: exceptions })(new URL(url)) !== undefined;
  for (const [url, exceptions, expected] of [
    ["https://hub.test/a", "", true],
    ["https://hub.test/a", "*", false],
    ["https://hub.test/a", "other.test, hub.test", false],
    ["https://cdn.hub.test/a", "hub.test", false],
    ["https://cdn.hub.test/a", ".hub.test", false],
    ["https://cdn.hub.test/a", "*.hub.test", false],
    ["https://github.test/a", "hub.test", true],
    ["https://hub.test/a", "hub.test:8443", true],
    ["https://hub.test:8443/a", "hub.test:8443", false],
    ["https://hub.test/a", "hub.test:443", false],
    ["https://10.1.2.3/a", "10.0.0.0/8", false],
    ["https://192.0.2.1/a", "10.0.0.0/8", true],
    ["https://192.0.2.1/a", "192.0.2.1", false],
    ["https://[2001:db8::1]/a", "2001:db8::/32", false],
  ] as const)
    assert.equal(isProxied(url, exceptions), expected, `${url} with ${exceptions}`);
});

it("a name that leads to this machine is refused before a proxy is asked, where everybody may name it", async () => {
  await using at = await site();
  const proxies = proxiesFrom({ ALL_PROXY: `http://127.0.0.1:${at.proxy.port}` });
  const head = { onHead: () => false, onData: () => true };
  const url = new URL("https://inner.test/x");
  const request = {
    method: "HEAD" as const,
    url,
    headers: {},
    connectMs: 60_000,
    stallMs: 60_000,
    signal,
    proxies,
  };
  const resolved = outerLookup((_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]));
  const { cause } = await rejectionOf(transfer({ ...request, lookup: resolved }, head), TransferError);
  assert.ok(cause instanceof InnerAddress);
  assert.deepEqual(at.proxy.asked, []);
  // Names that only the proxy can resolve are its own affair.
  const unknown = outerLookup((_name, _options, done) =>
    done(Object.assign(new Error("x"), { code: "ENOTFOUND" }), []),
  );
  await transfer({ ...request, url: new URL("https://hub.test/x"), lookup: unknown }, head);
  assert.deepEqual(at.proxy.asked, ["CONNECT hub.test:443"]);
});
