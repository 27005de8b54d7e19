import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { it } from "node:test";
import { download } from "../../../src/models/fetch/download.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { FileThread, type FileHash } from "../../../src/models/fetch/file-thread.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { parseSource } from "../../../src/models/fetch/source.ts";
import { rangeOf, serveFile, sha256Of } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { fetchSite, mebibyte } from "./site.ts";

it("fetches a file by several ranges at once", async () => {
  await using site = await fetchSite(70 * mebibyte + 1);
  const found = await download(site.options());
  assert.deepEqual(await readFile(found.path), site.body);
  assert.equal(found.sha256, sha256Of(site.body));
  const ranges = site.server.asked.filter(({ method }) => method === "GET").map(({ range }) => range);
  assert.deepEqual(
    new Set(ranges),
    new Set([
      `bytes=0-${32 * mebibyte - 1}`,
      `bytes=${32 * mebibyte}-${64 * mebibyte - 1}`,
      `bytes=${64 * mebibyte}-${70 * mebibyte}`,
    ]),
  );
});

it("opens further connections to a slow server", async () => {
  await using site = await fetchSite(40 * mebibyte);
  const { server } = site;
  const waiting: (() => void)[] = [];
  // No range is sent before both ranges were requested.
  server.behave = (request, _response, serve) => {
    if (request.method !== "GET") return serve();
    waiting.push(serve);
    if (waiting.length === 2) for (const send of waiting) send();
  };
  const found = await download(site.options());
  assert.equal(found.sha256, sha256Of(site.body));
});

it("fetches an empty file, and a file of one byte", async () => {
  for (const bytes of [0, 1]) {
    await using site = await fetchSite(bytes);
    const found = await download(site.options());
    assert.deepEqual(await readFile(found.path), site.body);
    assert.equal(found.sha256, sha256Of(site.body));
  }
});

it("continues where connections break, and fetches nothing twice", async () => {
  await using site = await fetchSite();
  const { server } = site;
  let breaks = 0;
  let sent = 0;
  server.behave = (request, response, serve, file) => {
    const range = file === undefined ? undefined : rangeOf(request, file.body);
    if (file === undefined || range === undefined) return serve();
    const [from, to] = range;
    const part =
      breaks < 5 ? file.body.subarray(from, from + Math.min(to - from, 700_000)) : file.body.subarray(from, to);
    breaks += 1;
    sent += part.length;
    response.writeHead(206, {
      etag: '"one"',
      "content-length": to - from,
      "content-range": `bytes ${from}-${to - 1}/${file.body.length}`,
    });
    return response.write(part, () => response.destroy());
  };
  const found = await download(site.options({ connections: 1 }));
  assert.deepEqual(await readFile(found.path), site.body);
  assert.equal(sent, site.body.length);
  assert.equal(breaks, 6);
});

type Site = Awaited<ReturnType<typeof fetchSite>>;

/**
 * Aborts a download of which three blocks from `first` on were written, and resolves with its directory: one by one from
 * the beginning of the file, or by the second connection while the first got none.
 */
async function begun(site: Site, first = 0, connections = 1): Promise<string> {
  const { server, body } = site;
  const stop = new AbortController();
  server.behave = (request, response, serve, file) => {
    const range = file === undefined ? undefined : rangeOf(request, file.body);
    if (file === undefined || range === undefined) return serve();
    response.writeHead(206, { etag: '"one"', "content-range": `bytes ${range[0]}-${range[1] - 1}/${body.length}` });
    if (range[0] < first) return response.flushHeaders();
    return response.write(body.subarray(range[0], range[0] + 3 * mebibyte + 5));
  };
  const options = site.options({ connections, signal: stop.signal });
  const ended = rejectionOf(download(options), Error);
  await until("three blocks are there", () => site.progress.bytesDone === 3 * mebibyte);
  stop.abort(new Error("killed"));
  assert.match(String(await ended), /killed/);
  server.asked.length = 0;
  server.behave = (_request, _response, serve) => serve();
  return options.directory;
}

const askedRanges = ({ server }: Site): readonly (string | undefined)[] =>
  server.asked.filter(({ method }) => method === "GET").map(({ range }) => range);

it("continues after an abort, and fetches only what is missing", async () => {
  await using site = await fetchSite();
  await begun(site);
  const found = await download(site.options({ connections: 1 }));
  assert.equal(found.sha256, sha256Of(site.body));
  assert.deepEqual(askedRanges(site), [`bytes=${3 * mebibyte}-${site.body.length - 1}`]);
});

for (const damaged of [0, 1]) {
  it(`fetches again what was changed on disk and the blocks after it: block ${damaged}`, async () => {
    await using site = await fetchSite();
    const directory = await begun(site);
    await using data = await open(`${directory}/data`, "r+");
    await data.write(Buffer.from("damage"), 0, 6, damaged * mebibyte + 17);
    const found = await download(site.options({ connections: 1 }));
    assert.equal(found.sha256, sha256Of(site.body));
    assert.deepEqual(askedRanges(site), [`bytes=${damaged * mebibyte}-${site.body.length - 1}`]);
  });
}

it("fetches no more than the changed block again where it was written out of order", async () => {
  await using site = await fetchSite(40 * mebibyte);
  const directory = await begun(site, 32 * mebibyte, 2);
  await using data = await open(`${directory}/data`, "r+");
  await data.write(Buffer.from("damage"), 0, 6, 33 * mebibyte + 17);
  const found = await download(site.options({ connections: 1 }));
  assert.equal(found.sha256, sha256Of(site.body));
  const range = (from: number, to: number): string => `bytes=${from * mebibyte}-${to * mebibyte - 1}`;
  assert.deepEqual(askedRanges(site), [range(0, 32), range(33, 34), range(35, 40)]);
});

it("reads a body in chunks whose lengths arrive in parts", async () => {
  await using site = await fetchSite(2 * mebibyte + 10);
  const { server, body, progress } = site;
  server.behave = async (request, response, serve) => {
    const { socket } = response;
    if (request.method === "HEAD" || socket === null) return serve();
    const total = body.length;
    const range = `content-range: bytes 0-${total - 1}/${total}`;
    const part = (from: number, to: number): string => body.toString("latin1", from, to);
    socket.write(`HTTP/1.1 206 Partial Content\r\netag: "one"\r\n${range}\r\ntransfer-encoding: chunked\r\n\r\n`);
    socket.write(`5\r\n${part(0, 5)}\r\n`, "latin1");
    await until("the first chunk was read", () => progress.receivedBytes === 5);
    socket.write(`5\r\n${part(5, 10)}\r\n2`, "latin1");
    await until("the second chunk was read", () => progress.receivedBytes === 10);
    socket.write(`00000\r\n${part(10, total)}\r\n0\r\n\r\n`, "latin1");
  };
  const found = await download(site.options({ connections: 1 }));
  assert.deepEqual(await readFile(found.path), body);
  assert.equal(server.asked.filter(({ method }) => method === "GET").length, 1);
});

it("begins again where the server has another file than an earlier attempt has begun", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  const stop = new AbortController();
  server.behave = (request, response, serve) => {
    if (request.method === "HEAD") return serve();
    response.writeHead(206, { etag: '"one"', "content-range": `bytes 0-${body.length - 1}/${body.length}` });
    return response.write(body.subarray(0, 3 * mebibyte));
  };
  const ended = rejectionOf(download(site.options({ signal: stop.signal })), Error);
  await until("three blocks are there", () => site.progress.bytesDone === 3 * mebibyte);
  stop.abort(new Error("killed"));
  await ended;
  const other = Buffer.from(body).fill(7, 0, 100);
  server.files.set("/model.gguf", { body: other, etag: '"two"' });
  server.behave = (_request, _response, serve) => serve();
  assert.equal((await download(site.options())).sha256, sha256Of(other));
});

it("never joins two versions: an ETag or a size that changes between two ranges starts the file again", async () => {
  for (const change of ["etag", "size"]) {
    await using site = await fetchSite(33 * mebibyte);
    const { server, body } = site;
    const other = Buffer.from(body.map((byte) => byte ^ 0xff)).subarray(
      0,
      change === "size" ? 32 * mebibyte + 5 : undefined,
    );
    let gets = 0;
    server.behave = (request, _response, serve) => {
      if (request.method === "GET" && ++gets === 2) {
        server.files.set("/model.gguf", {
          body: other,
          ...(change === "etag" ? { etag: '"two"' } : { etag: '"one"' }),
        });
      }
      serve();
    };
    const found = await download(site.options({ connections: 1 }));
    assert.equal(found.sha256, sha256Of(other), change);
    assert.equal(site.progress.restarts, 1, change);
  }
});

it("takes the whole file from a server without ranges, and appends nothing to received bytes", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  let cuts = 2;
  server.behave = (request, response, _serve, file) => {
    response.writeHead(200, { "content-length": file?.body.length ?? 0 });
    if (request.method === "HEAD") return response.end();
    if (request.headers.range === undefined && cuts-- > 0) {
      return response.write(body.subarray(0, 2 * mebibyte), () => response.destroy());
    }
    return response.end(body);
  };
  const found = await download(site.options());
  assert.deepEqual(await readFile(found.path), body);
  assert.equal(found.sha256, sha256Of(body));
});

it("a server that sends nothing more is left after the time of the watchdog, for a new connection", async () => {
  await using site = await fetchSite();
  const { server, body } = site;
  let stalls = 0;
  let silentSince = 0;
  const silences: number[] = [];
  server.behave = (request, response, serve, file) => {
    if (silentSince > 0) silences.push(performance.now() - silentSince);
    silentSince = 0;
    const range = file === undefined ? undefined : rangeOf(request, file.body);
    if (range === undefined || stalls === 2) return serve();
    stalls += 1;
    silentSince = performance.now();
    response.writeHead(206, { etag: '"one"', "content-range": `bytes ${range[0]}-${range[1] - 1}/${body.length}` });
    return response.write(body.subarray(range[0], range[0] + 1000));
  };
  const { network } = site.options();
  // Long enough for the pauses of a busy machine.
  const stallMs = 10_000;
  const found = await download(site.options({ connections: 1, network: { ...network, stallMs } }));
  assert.equal(found.sha256, sha256Of(body));
  assert.equal(site.progress.stalls, 2);
  assert.equal(silences.length, 2);
  // Every other time limit is a minute.
  for (const ms of silences) {
    assert.ok(ms >= stallMs - 10 && ms < 2 * stallMs, `back after ${ms} ms with a watchdog of ${stallMs}`);
  }
  const resolved = server.asked.filter(({ method }) => method === "HEAD").length;
  assert.equal(resolved, 3, "each stall asks for the address anew");
});

it("a wrong checksum is an error, and nothing of the file stays", async () => {
  await using site = await fetchSite();
  const options = site.options({ expected: { sha256: "0".repeat(64) } });
  const error = await rejectionOf(download(options), FetchError);
  assert.equal(error.reason, "ChecksumMismatch");
  assert.equal(error.isTerminal, true);
  assert.match(error.message, /has the SHA-256 [0-9a-f]{64}, not 0{64}: what came was deleted/);
  assert.equal(existsSync(options.directory), false);
});

it("a size other than the declared size is refused before anything is fetched", async () => {
  await using site = await fetchSite();
  const error = await rejectionOf(download(site.options({ expected: { sizeBytes: 5 } })), FetchError);
  assert.equal(error.reason, "SizeMismatch");
  assert.equal(
    site.server.asked.some(({ method }) => method === "GET"),
    false,
  );
});

it("waits as long as a 429 of the server requires", async () => {
  await using site = await fetchSite();
  const { server } = site;
  let refused = 0;
  let refusedAt = 0;
  let waitedMs = 0;
  server.behave = (request, response, serve) => {
    if (request.method === "HEAD") return serve();
    if (refused++ > 0) {
      waitedMs ||= performance.now() - refusedAt;
      return serve();
    }
    refusedAt = performance.now();
    return response.writeHead(429, { "retry-after": "1" }).end();
  };
  const found = await download(site.options({ connections: 1 }));
  assert.equal(found.sha256, sha256Of(site.body));
  assert.ok(waitedMs >= 990, `waited ${waitedMs} ms`);
  server.behave = (_request, response) => response.writeHead(429, { "retry-after": "3600" }).end();
  const error = await rejectionOf(download(site.options({ directory: `${site.directory}/other` })), FetchError);
  assert.equal(error.retryAfterMs, 3_600_000);
  assert.equal(error.isTerminal, false);
});

it("a signed address that expires is signed again, and received bytes stay", async () => {
  await using site = await fetchSite(40 * mebibyte);
  const { server, body } = site;
  let signature = 1;
  let gets = 0;
  server.behave = (request, response, _serve) => {
    const { pathname, searchParams } = new URL(request.url ?? "", server.url);
    if (pathname === "/model.gguf") return response.writeHead(302, { location: `/signed?of=${signature}` }).end();
    // The second range finds that its signature has expired meanwhile.
    if (request.method === "GET" && ++gets === 2) signature = 2;
    if (Number(searchParams.get("of")) !== signature) return response.writeHead(403).end();
    return serveFile(request, response, { body, etag: '"one"' });
  };
  const found = await download(site.options({ connections: 1 }));
  assert.equal(found.sha256, sha256Of(body));
  assert.equal(site.progress.receivedBytes, body.length, "nothing is fetched twice");
  assert.equal(site.progress.restarts, 0);
});

it("an unreachable or unknown host is named", async () => {
  await using site = await fetchSite();
  const { network } = site.options();
  const failure = async (text: string): Promise<string> => {
    const source = parseSource(text);
    if (source.scheme !== "https") throw new Error("no web source");
    const quick = { ...network, stallMs: 300, retryMs: 1 };
    const error = await rejectionOf(download(site.options({ text, source, network: quick })), FetchError);
    assert.deepEqual([error.reason, error.isTerminal], ["FetchFailed", false]);
    return error.message;
  };
  site.server.behave = () => undefined;
  assert.match(
    await failure(`${site.server.url}/a.gguf`),
    /^127\.0\.0\.1:\d+ has sent nothing for 0\.3 s, 7 times in a row$/,
  );
  assert.match(
    await failure("https://nowhere.invalid/a.gguf"),
    /^nowhere\.invalid: .*(ENOTFOUND|EAI_AGAIN).*7 times in a row$/,
  );
  assert.match(await failure("http://127.0.0.1:1/a.gguf"), /^127\.0\.0\.1:1: .*ECONNREFUSED.* 7 times in a row$/);
  assert.match(site.progress.trouble ?? "", /^127\.0\.0\.1:1: .*ECONNREFUSED/, "said while it is tried again");
});

it("416 starts the file again, and a server that always fails ends the attempt, which may pass", async () => {
  await using site = await fetchSite();
  const { server } = site;
  let first = true;
  server.behave = (request, response, serve) => {
    if (request.method === "GET" && first) {
      first = false;
      return response.writeHead(416).end();
    }
    return serve();
  };
  assert.equal((await download(site.options())).sha256, sha256Of(site.body));
  assert.equal(site.progress.restarts, 1);
  server.behave = (_request, response) => response.writeHead(502).end();
  const error = await rejectionOf(download(site.options({ directory: `${site.directory}/other` })), FetchError);
  assert.equal(error.isTerminal, false);
  assert.match(error.message, /answers HTTP 502/);
});

it("keeps to a limit of the bandwidth", async () => {
  await using site = await fetchSite(3 * mebibyte);
  const began = performance.now();
  await download(site.options({ rate: new RateLimit(2 * mebibyte) }));
  const seconds = (performance.now() - began) / 1000;
  assert.ok(seconds > 1.2, `3 MiB at 2 MiB/s took ${seconds} s`);
});

it("a body of many small chunks goes on after a slow disk", { timeout: 120_000 }, async () => {
  await using site = await fetchSite(5 * mebibyte);
  const { server, body } = site;
  server.behave = (request, response, serve) => {
    const range = rangeOf(request, body);
    if (range === undefined || request.method !== "GET") return serve();
    const [from, to] = range;
    response.writeHead(206, { etag: '"one"', "content-range": `bytes ${from}-${to - 1}/${body.length}` });
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
  const found = await download(site.options({ fileThread, connections: 1 }));
  assert.equal(found.sha256, sha256Of(body));
});

it("a server without ranges that has another file at the second attempt gives that file and its checksum", async () => {
  await using site = await fetchSite(5 * mebibyte);
  const { server, body, progress } = site;
  const other = Buffer.from(body.toReversed());
  let gets = 0;
  server.behave = async (request, response): Promise<void> => {
    const isGet = request.method === "GET";
    const isWhole = isGet && request.headers.range === undefined;
    if (isWhole) gets += 1;
    response.writeHead(200, { "content-length": body.length });
    if (!isWhole || gets > 1) {
      response.end(isWhole ? other : isGet ? body : undefined);
      return;
    }
    response.write(body.subarray(0, 3 * mebibyte));
    await until("three blocks are there", () => progress.bytesDone === 3 * mebibyte);
    response.destroy();
  };
  const found = await download(site.options());
  assert.deepEqual(await readFile(found.path), other);
  assert.equal(found.sha256, sha256Of(other));
  assert.equal(gets, 2);
});

it("a server without ranges whose ETag differs from that of the begun file has it fetched as another one", async () => {
  await using site = await fetchSite(2 * mebibyte);
  const { server, body } = site;
  const other = Buffer.from(body.toReversed());
  let isChanged = false;
  server.behave = (request, response) => {
    const isWhole = request.method === "GET" && request.headers.range === undefined;
    const etag = isChanged || isWhole ? '"two"' : '"one"';
    isChanged ||= isWhole;
    const headers = { "content-length": body.length, etag };
    return response.writeHead(200, headers).end(request.method === "GET" ? other : undefined);
  };
  const found = await download(site.options());
  assert.equal(found.sha256, sha256Of(other));
  const journal = await readFile(`${site.options().directory}/journal`, "latin1");
  assert.match(journal, /^.*\\"two\\"/, "it is known as the file of its ETag");
});

it("what does not fit on the disk is not begun", async () => {
  await using site = await fetchSite();
  const error = await rejectionOf(download(site.options({ reserveBytes: 2 ** 50 })), FetchError);
  assert.equal(error.reason, "NoSpace");
  assert.equal(error.isTerminal, false);
  assert.match(error.message, /bytes are needed and \d+ are free, of which \d+ stay free/);
  assert.equal(
    site.server.asked.some(({ method }) => method === "GET"),
    false,
  );
});
