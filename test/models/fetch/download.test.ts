import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { download } from "../../../src/models/fetch/download.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { FileThread, type FileHash } from "../../../src/models/fetch/file-thread.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { rangeOf, serveFile, sha256Of, type Behaviour } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { contentRange, fetchSite, mebibyte, rangesOf, webSource } from "./site.ts";

type Site = Awaited<ReturnType<typeof fetchSite>>;

const good: Behaviour = (_request, _response, serve) => serve();

/** Answers a GET of a part of the body: the head, and the bytes from the beginning of that part to `to`, and no more. */
function sendPart(request: IncomingMessage, response: ServerResponse, body: Buffer, bytes: number): Promise<void> {
  const [from, to] = rangeOf(request, body) ?? [0, body.length];
  response.writeHead(206, {
    etag: '"one"',
    "content-length": to - from,
    "content-range": contentRange(from, to, body),
  });
  return new Promise((resolve) => response.write(body.subarray(from, Math.min(to, from + bytes)), () => resolve()));
}

async function failureOf(site: Site, change: Parameters<Site["options"]>[0] = {}): Promise<FetchError> {
  return await rejectionOf(download(site.options(change)), FetchError);
}

/** Also what is on the disk. */
async function comes(site: Site, body: Buffer, change: Parameters<Site["options"]>[0] = {}): Promise<void> {
  const found = await download(site.options(change));
  assert.equal(found.sha256, sha256Of(body));
  assert.deepEqual(await readFile(found.path), body);
}

it("fetches a file by several ranges at once, over further connections to a slow server", async () => {
  await using site = await fetchSite(66 * mebibyte + 1);
  const waiting: (() => void)[] = [];
  // No range is sent before all were requested.
  site.server.behave = (request, _response, serve) => {
    if (request.method !== "GET") return serve();
    waiting.push(serve);
    if (waiting.length === 3) for (const send of waiting) send();
  };
  await comes(site, site.body);
  const range = (from: number, to: number): string => `bytes=${from}-${to - 1}`;
  const edges = [0, 32 * mebibyte, 64 * mebibyte, site.body.length] as const;
  const [a, b, c, d] = edges;
  assert.deepEqual(new Set(rangesOf(site.server)), new Set([range(a, b), range(b, c), range(c, d)]));
});

it("fetches an empty file, and a file of one byte", async () => {
  for (const bytes of [0, 1]) {
    await using site = await fetchSite(bytes);
    await comes(site, site.body);
  }
});

it("continues where connections break, and fetches nothing twice", async () => {
  await using site = await fetchSite();
  let breaks = 0;
  site.server.behave = async (request, response, serve) => {
    if (request.method !== "GET" || breaks === 5) return serve();
    breaks += 1;
    await sendPart(request, response, site.body, 700_000);
    return response.destroy();
  };
  await comes(site, site.body, { connections: 1 });
  const sent = rangesOf(site.server).map((range) => Number(/=(\d+)-/.exec(range ?? "")?.[1]));
  assert.deepEqual(
    sent,
    [0, 1, 2, 3, 4, 5].map((nth) => nth * 700_000),
  );
  assert.equal(breaks, 5);
});

/**
 * Aborts a download of which three blocks from `first` on were written, and resolves with its directory: one by one from
 * the beginning of the file, or by the second connection while the first got none.
 */
async function begun(site: Site, first = 0, connections = 1): Promise<string> {
  const { server, body } = site;
  const stop = new AbortController();
  server.behave = (request, response, serve) => {
    if (request.method !== "GET") return serve();
    const [from = 0] = rangeOf(request, body) ?? [];
    if (from >= first) return sendPart(request, response, body, 3 * mebibyte + 5);
    return sendPart(request, response, body, 0);
  };
  const options = site.options({ connections, signal: stop.signal });
  const ended = rejectionOf(download(options), Error);
  await until("three blocks are there", () => site.progress.bytesDone === 3 * mebibyte);
  stop.abort(new Error("killed"));
  assert.match(String(await ended), /killed/);
  server.asked.length = 0;
  server.behave = good;
  return options.directory;
}

describe("after an abort", () => {
  for (const damaged of [undefined, 0, 1]) {
    const what = damaged === undefined ? "is missing" : `was changed on disk and the blocks after it: block ${damaged}`;
    it(`fetches only what ${what}`, async () => {
      await using site = await fetchSite();
      const directory = await begun(site);
      await using data = await open(`${directory}/data`, "r+");
      if (damaged !== undefined) await data.write(Buffer.from("damage"), 0, 6, damaged * mebibyte + 17);
      await comes(site, site.body, { connections: 1 });
      assert.deepEqual(rangesOf(site.server), [`bytes=${(damaged ?? 3) * mebibyte}-${site.body.length - 1}`]);
    });
  }

  it("fetches no more than the changed block again where it was written out of order", async () => {
    await using site = await fetchSite(36 * mebibyte);
    const directory = await begun(site, 32 * mebibyte, 2);
    await using data = await open(`${directory}/data`, "r+");
    await data.write(Buffer.from("damage"), 0, 6, 33 * mebibyte + 17);
    await comes(site, site.body, { connections: 1 });
    const range = (from: number, to: number): string => `bytes=${from * mebibyte}-${to * mebibyte - 1}`;
    assert.deepEqual(rangesOf(site.server), [range(0, 32), range(33, 34), range(35, 36)]);
  });

  it("begins again where the server has another file by then", async () => {
    await using site = await fetchSite();
    await begun(site);
    const other = Buffer.from(site.body).fill(7, 0, 100);
    site.server.files.set("/model.gguf", { body: other, etag: '"two"' });
    await comes(site, other);
  });
});

it("reads a body in chunks whose lengths arrive in parts", async () => {
  await using site = await fetchSite(mebibyte + 10);
  const { server, body, progress } = site;
  server.behave = async (request, response, serve) => {
    const { socket } = response;
    if (request.method === "HEAD" || socket === null) return serve();
    const total = body.length;
    const range = `content-range: ${contentRange(0, total, body)}`;
    const part = (from: number, to: number): string => body.toString("latin1", from, to);
    socket.write(`HTTP/1.1 206 Partial Content\r\netag: "one"\r\n${range}\r\ntransfer-encoding: chunked\r\n\r\n`);
    socket.write(`5\r\n${part(0, 5)}\r\n`, "latin1");
    await until("the first chunk was read", () => progress.receivedBytes === 5);
    socket.write(`5\r\n${part(5, 10)}\r\n1`, "latin1");
    await until("the second chunk was read", () => progress.receivedBytes === 10);
    socket.write(`00000\r\n${part(10, total)}\r\n0\r\n\r\n`, "latin1");
  };
  await comes(site, body, { connections: 1 });
  assert.equal(rangesOf(server).length, 1);
});

for (const change of ["etag", "size"] as const) {
  it(`never joins two versions: a changed ${change} between two ranges starts the file again`, async () => {
    await using site = await fetchSite(33 * mebibyte);
    const { server } = site;
    const bytes = change === "size" ? 32 * mebibyte + 5 : site.body.length;
    const other = Buffer.from(site.body.map((byte) => byte ^ 0xff)).subarray(0, bytes);
    const etag = change === "etag" ? '"two"' : '"one"';
    let gets = 0;
    server.behave = (request, _response, serve) => {
      if (request.method === "GET" && ++gets === 2) server.files.set("/model.gguf", { body: other, etag });
      serve();
    };
    await comes(site, other, { connections: 1 });
    assert.equal(site.progress.restarts, 1);
  });
}

describe("a server without ranges", () => {
  const isWhole = ({ method, headers }: IncomingMessage): boolean => method === "GET" && headers.range === undefined;

  it("gives the whole file, and nothing is appended to received bytes", async () => {
    await using site = await fetchSite();
    const { server, body } = site;
    let cuts = 2;
    server.behave = (request, response) => {
      response.writeHead(200, { "content-length": body.length });
      if (request.method === "HEAD") return response.end();
      if (isWhole(request) && cuts-- > 0)
        return response.write(body.subarray(0, 2 * mebibyte), () => response.destroy());
      return response.end(body);
    };
    await comes(site, body);
  });

  it("that has another file at the second attempt gives that file and its checksum", async () => {
    await using site = await fetchSite();
    const { server, body, progress } = site;
    const other = Buffer.from(body.toReversed());
    let gets = 0;
    server.behave = async (request, response): Promise<void> => {
      if (isWhole(request)) gets += 1;
      response.writeHead(200, { "content-length": body.length });
      if (!isWhole(request) || gets > 1) {
        response.end(isWhole(request) ? other : request.method === "GET" ? body : undefined);
        return;
      }
      response.write(body.subarray(0, 3 * mebibyte));
      await until("three blocks are there", () => progress.bytesDone === 3 * mebibyte);
      response.destroy();
    };
    await comes(site, other);
    assert.equal(gets, 2);
  });

  it("whose ETag differs from that of the begun file has it fetched as another one", async () => {
    await using site = await fetchSite(mebibyte);
    const { server, body } = site;
    const other = Buffer.from(body.toReversed());
    let isChanged = false;
    server.behave = (request, response) => {
      const etag = isChanged || isWhole(request) ? '"two"' : '"one"';
      isChanged ||= isWhole(request);
      const headers = { "content-length": body.length, etag };
      return response.writeHead(200, headers).end(request.method === "GET" ? other : undefined);
    };
    await comes(site, other);
    const journal = await readFile(`${site.options().directory}/journal`, "latin1");
    assert.match(journal, /^.*\\"two\\"/, "it is known as the file of its ETag");
  });
});

it("a server that sends nothing more is left after the time of the watchdog, for a new connection and address", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  let stalls = 0;
  server.behave = (request, response, serve) => {
    if (request.method !== "GET" || stalls === 2) return serve();
    stalls += 1;
    return sendPart(request, response, body, 1000);
  };
  const began = performance.now();
  await comes(site, body, { connections: 1, network: { ...site.options().network, stallMs: 300 } });
  // A pause of a busy machine may count as another one.
  assert.ok(site.progress.stalls >= 2 && performance.now() - began >= 590);
  const resolved = server.asked.filter(({ method }) => method === "HEAD").length;
  assert.ok(resolved >= 3, `${resolved} questions for the address`);
});

it("a wrong checksum is an error, and nothing of the file stays", async () => {
  await using site = await fetchSite();
  const error = await failureOf(site, { expected: { sha256: "0".repeat(64) } });
  assert.deepEqual([error.reason, error.isTerminal], ["ChecksumMismatch", true]);
  assert.match(error.message, /has the SHA-256 [0-9a-f]{64}, not 0{64}: what came was deleted/);
  assert.equal(existsSync(site.options().directory), false);
});

it("what does not fit on the disk, or has another size than declared, is not begun", async () => {
  await using site = await fetchSite();
  for (const [change, reason, isTerminal, message] of [
    [{ expected: { sizeBytes: 5 } }, "SizeMismatch", true, / has \d+ bytes at \S+, not the 5 that are declared$/],
    [{ reserveBytes: 2 ** 50 }, "NoSpace", false, /bytes are needed and \d+ are free, of which \d+ stay free/],
  ] as const) {
    const error = await failureOf(site, change);
    assert.deepEqual([error.reason, error.isTerminal], [reason, isTerminal]);
    assert.match(error.message, message);
  }
  assert.deepEqual(rangesOf(site.server), []);
});

it("waits as long as a 429 of the server requires, and leaves a long wait to the caller", async () => {
  await using site = await fetchSite();
  const { server } = site;
  let refusedAt: number | undefined;
  let waitedMs = 0;
  server.behave = (request, response, serve) => {
    if (request.method === "HEAD") return serve();
    if (refusedAt !== undefined) {
      waitedMs ||= performance.now() - refusedAt;
      return serve();
    }
    refusedAt = performance.now();
    return response.writeHead(429, { "retry-after": "1" }).end();
  };
  await comes(site, site.body, { connections: 1 });
  assert.ok(waitedMs >= 990, `waited ${waitedMs} ms`);
  server.behave = (_request, response) => response.writeHead(429, { "retry-after": "3600" }).end();
  const error = await failureOf(site, { directory: `${site.directory}/other` });
  assert.deepEqual([error.retryAfterMs, error.isTerminal], [3_600_000, false]);
});

it("a signed address that expires is signed again, and received bytes stay", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  let signature = 1;
  let gets = 0;
  server.behave = async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", server.url);
    if (pathname === "/model.gguf") return response.writeHead(302, { location: `/signed?of=${signature}` }).end();
    // The second request finds that its signature has expired meanwhile.
    if (request.method === "GET" && ++gets === 2) signature = 2;
    if (Number(searchParams.get("of")) !== signature) return response.writeHead(403).end();
    if (request.method === "HEAD" || gets > 1) return serveFile(request, response, { body, etag: '"one"' });
    await sendPart(request, response, body, 2 * mebibyte);
    return response.destroy();
  };
  await comes(site, body, { connections: 1 });
  assert.equal(site.progress.receivedBytes, body.length, "nothing is fetched twice");
  assert.equal(site.progress.restarts, 0);
});

it("an unreachable or unknown host is named, also while it is tried again", async () => {
  await using site = await fetchSite();
  const network = { ...site.options().network, stallMs: 50, retryMs: 1 };
  site.server.behave = () => undefined;
  for (const [text, message] of [
    [`${site.server.url}/a.gguf`, /^127\.0\.0\.1:\d+ has sent nothing for 0\.05 s, 7 times in a row$/],
    ["https://nowhere.invalid/a.gguf", /^nowhere\.invalid: .*(ENOTFOUND|EAI_AGAIN).*7 times in a row$/],
    ["http://127.0.0.1:1/a.gguf", /^127\.0\.0\.1:1: .*ECONNREFUSED.* 7 times in a row$/],
  ] as const) {
    const error = await failureOf(site, { text, source: webSource(text), network });
    assert.deepEqual([error.reason, error.isTerminal], ["FetchFailed", false]);
    assert.match(error.message, message);
  }
  assert.match(site.progress.trouble ?? "", /^127\.0\.0\.1:1: .*ECONNREFUSED/);
});

it("416 starts the file again, and a server that always fails ends the attempt, which may pass", async () => {
  await using site = await fetchSite();
  const { server } = site;
  let isFirst = true;
  server.behave = (request, response, serve) => {
    if (request.method !== "GET" || !isFirst) return serve();
    isFirst = false;
    return response.writeHead(416).end();
  };
  await comes(site, site.body);
  assert.equal(site.progress.restarts, 1);
  server.behave = (_request, response) => response.writeHead(502).end();
  const error = await failureOf(site, { directory: `${site.directory}/other` });
  assert.equal(error.isTerminal, false);
  assert.match(error.message, /answers HTTP 502/);
});

it("keeps to a limit of the bandwidth", async () => {
  await using site = await fetchSite(mebibyte);
  const began = performance.now();
  await download(site.options({ rate: new RateLimit(2 * mebibyte) }));
  const seconds = (performance.now() - began) / 1000;
  assert.ok(seconds > 0.4, `1 MiB at 2 MiB/s took ${seconds} s`);
});

it("a body of many small chunks goes on after a slow disk", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  server.behave = (request, response, serve) => {
    const range = rangeOf(request, body);
    if (range === undefined || request.method !== "GET") return serve();
    const [from, to] = range;
    response.writeHead(206, { etag: '"one"', "content-range": contentRange(from, to, body) });
    let at = from;
    const send = (): void => {
      while (at < to) {
        const part = body.subarray(at, Math.min(to, at + 1000));
        at += part.length;
        if (response.write(part)) continue;
        response.once("drain", send);
        return;
      }
      response.end();
    };
    send();
  };
  class SlowThread extends FileThread {
    override begin(path: string): FileHash {
      const hash = super.begin(path);
      const write = hash.write.bind(hash);
      // No block is on the disk before the connection has hardly any room left in the next one, and waits.
      hash.write = async (block) => {
        await until("the connection waits", () => site.progress.receivedBytes >= 1.75 * mebibyte);
        await write(block);
      };
      return hash;
    }
  }
  await using fileThread = new SlowThread();
  await comes(site, body, { fileThread, connections: 1 });
});
