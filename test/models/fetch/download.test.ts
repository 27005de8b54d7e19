import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { open, readFile, rm, truncate } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { download, type DownloadOptions } from "../../../src/models/fetch/download.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { readPartial } from "../../../src/models/fetch/partial-record.ts";
import { RateLimit } from "../../../src/models/fetch/rate-limit.ts";
import { rangeOf, serveFile, sha256Of, type Behaviour } from "../../doubles/file-server.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { contentRange, fetchSite, mebibyte, rangesOf, webSource } from "./site.ts";

type Site = Awaited<ReturnType<typeof fetchSite>>;
type Change = NonNullable<Parameters<Site["options"]>[0]>;

/** Answers a GET of a part of the body: the head, and the bytes from the beginning of that part to `to`, and no more. */
function sendPart(request: IncomingMessage, response: ServerResponse, body: Buffer, bytes: number): Promise<void> {
  const [from, to] = rangeOf(request, body) ?? [0, body.length];
  const range = { "content-length": to - from, "content-range": contentRange(from, to, body) };
  response.writeHead(206, { etag: '"one"', ...range });
  return new Promise((resolve) => response.write(body.subarray(from, Math.min(to, from + bytes)), () => resolve()));
}

const failureOf = async (site: Site, change: Change = {}): Promise<FetchError> =>
  await rejectionOf(download(site.options(change)), FetchError);

/** Also what is on the disk. */
async function comes(site: Site, body: Buffer, change: Change = {}): Promise<void> {
  const found = await download(site.options(change));
  assert.equal(found.sha256, sha256Of(body));
  assert.deepEqual(await readFile(found.path), body);
}

const isWhole = ({ method, headers }: IncomingMessage): boolean => method === "GET" && headers.range === undefined;
const requested = (from: number, to: number): string => `bytes=${from}-${to - 1}`;

/** A server's behaviour by what it does to the nth GET, from 1. */
function gets(answer: (nth: number, ...asked: Parameters<Behaviour>) => unknown): Behaviour {
  let nth = 0;
  return (...asked) => (asked[0].method === "GET" ? answer(++nth, ...asked) : asked[2]());
}

interface Outcome {
  readonly change?: Change;
  /** The bytes that the download leaves on the disk; absent: those that the site serves. */
  readonly body?: Buffer;
  /** The ranges that were requested. */
  readonly ranges?: readonly string[];
  readonly check?: () => unknown;
}

const one = { connections: 1 };
/** By what the server does. `behave` sets it up, and says what comes of it over one connection. */
const table: Readonly<Record<string, readonly [bytes: number | undefined, behave: (site: Site) => Outcome]>> = {
  "sends an empty file": [0, () => ({})],
  "sends a file of one byte": [1, () => ({})],
  "breaks connections: what came is not fetched twice": [
    undefined,
    ({ server, body }) => {
      server.behave = gets(async (nth, request, response, serve) => {
        if (nth > 5) return serve();
        await sendPart(request, response, body, 700_000);
        return response.destroy();
      });
      return { ranges: [0, 1, 2, 3, 4, 5].map((nth) => requested(nth * 700_000, body.length)) };
    },
  ],
  "sends chunks whose lengths arrive in parts": [
    mebibyte + 10,
    ({ server, body, progress }) => {
      server.behave = gets(async (_nth, _request, { socket }) => {
        const total = body.length;
        const range = `content-range: ${contentRange(0, total, body)}`;
        const part = (from: number, to: number): string => body.toString("latin1", from, to);
        socket?.write(`HTTP/1.1 206 Partial Content\r\netag: "one"\r\n${range}\r\ntransfer-encoding: chunked\r\n\r\n`);
        socket?.write(`5\r\n${part(0, 5)}\r\n`, "latin1");
        await until("the first chunk was read", () => progress.receivedBytes === 5);
        socket?.write(`5\r\n${part(5, 10)}\r\n1`, "latin1");
        await until("the second chunk was read", () => progress.receivedBytes === 10);
        socket?.write(`00000\r\n${part(10, total)}\r\n0\r\n\r\n`, "latin1");
      });
      return { ranges: [requested(0, body.length)] };
    },
  ],
  ...Object.fromEntries(
    (["etag", "size"] as const).map((change): [string, (typeof table)[string]] => [
      `changes the ${change} between two ranges: two versions are never joined`,
      [
        33 * mebibyte,
        ({ server, body }) => {
          const bytes = change === "size" ? 32 * mebibyte + 5 : body.length;
          const other = Buffer.from(body.map((byte) => byte ^ 0xff)).subarray(0, bytes);
          server.behave = gets((nth, _request, _response, serve) => {
            const etag = change === "etag" ? '"two"' : '"one"';
            if (nth === 2) server.files.set("/model.gguf", { body: other, etag });
            serve();
          });
          return { body: other };
        },
      ],
    ]),
  ),
  "knows no ranges and breaks: nothing is appended to received bytes": [
    undefined,
    ({ server, body }) => {
      let cuts = 2;
      server.behave = (request, response) => {
        response.writeHead(200, { "content-length": body.length });
        if (!isWhole(request) || cuts-- <= 0) return response.end(request.method === "GET" ? body : undefined);
        return response.write(body.subarray(0, 2 * mebibyte), () => response.destroy());
      };
      return {};
    },
  ],
  "knows no ranges, and has another file at the second attempt": [
    undefined,
    ({ server, body, progress }) => {
      const other = Buffer.from(body.toReversed());
      let wholes = 0;
      server.behave = async (request, response): Promise<void> => {
        response.writeHead(200, { "content-length": body.length });
        if (!isWhole(request)) return void response.end(request.method === "GET" ? body : undefined);
        wholes += 1;
        if (wholes > 1) return void response.end(other);
        response.write(body.subarray(0, 3 * mebibyte));
        await until("three blocks are there", () => progress.bytesDone === 3 * mebibyte);
        response.destroy();
      };
      return { body: other, check: () => assert.equal(wholes, 2) };
    },
  ],
  "knows no ranges, and has another ETag than before: the record has that ETag": [
    mebibyte,
    ({ server, body, options }) => {
      const other = Buffer.from(body.toReversed());
      let isChanged = false;
      server.behave = (request, response) => {
        isChanged ||= isWhole(request);
        const headers = { "content-length": body.length, etag: isChanged ? '"two"' : '"one"' };
        return response.writeHead(200, headers).end(request.method === "GET" ? other : undefined);
      };
      const record = async () => (await readPartial(options().directory))?.content.validator;
      return { body: other, check: async () => assert.equal(await record(), '"two"') };
    },
  ],
  "stops sending: the watchdog takes a new connection and address": [
    undefined,
    ({ server, body, options, progress }) => {
      server.behave = gets((nth, request, response, serve) =>
        nth > 2 ? serve() : sendPart(request, response, body, 1000),
      );
      const heads = (): number => server.asked.filter(({ method }) => method === "HEAD").length;
      return {
        change: { network: { ...options().network, stallMs: 100 } },
        // A pause of a busy machine may count as another stall.
        check: () => assert.ok(progress.stalls >= 2 && heads() >= 3, `${heads()} questions for the address`),
      };
    },
  ],
  "lets its signed address expire: it is signed again, and received bytes stay": [
    undefined,
    ({ server, body, progress }) => {
      let signature = 1;
      let signed = 0;
      server.behave = async (request, response) => {
        const { pathname, searchParams } = new URL(request.url ?? "", server.url);
        if (pathname === "/model.gguf") return response.writeHead(302, { location: `/signed?of=${signature}` }).end();
        // The second request finds that its signature has expired meanwhile.
        if (request.method === "GET" && ++signed === 2) signature = 2;
        if (Number(searchParams.get("of")) !== signature) return response.writeHead(403).end();
        if (request.method === "HEAD" || signed > 1) return serveFile(request, response, { body, etag: '"one"' });
        await sendPart(request, response, body, 2 * mebibyte);
        return response.destroy();
      };
      return { check: () => assert.equal(progress.receivedBytes, body.length, "nothing comes twice") };
    },
  ],
  "answers 416: the file begins again": [
    undefined,
    ({ server }) => {
      server.behave = gets((nth, _request, response, serve) =>
        nth > 1 ? serve() : void response.writeHead(416).end(),
      );
      return {};
    },
  ],
  "requires a pause by 429": [
    undefined,
    ({ server }) => {
      let refusedAt = 0;
      let waitedMs = 0;
      server.behave = gets((nth, _request, response, serve) => {
        if (nth === 2) waitedMs = performance.now() - refusedAt;
        if (nth > 1) return serve();
        refusedAt = performance.now();
        return response.writeHead(429, { "retry-after": "1" }).end();
      });
      return { check: () => assert.ok(waitedMs >= 990, `waited ${waitedMs} ms`) };
    },
  ],
};

describe("a file comes whole from a server that", () => {
  for (const [what, [bytes, behave]] of Object.entries(table))
    it(what, async () => {
      await using site = await fetchSite(bytes);
      const { change = {}, body = site.body, ranges, check } = behave(site);
      await comes(site, body, { ...one, ...change });
      if (ranges !== undefined) assert.deepEqual(rangesOf(site.server), ranges);
      await check?.();
    });
});

it("fetches a file by several ranges at once, over further connections to a slow server", async () => {
  await using site = await fetchSite(66 * mebibyte + 1);
  const waiting: (() => void)[] = [];
  // No range is sent before all were requested.
  site.server.behave = gets((_nth, _request, _response, serve) => {
    waiting.push(serve);
    if (waiting.length === 3) for (const send of waiting) send();
  });
  await comes(site, site.body);
  const [b, c] = [32 * mebibyte, 64 * mebibyte];
  const all = [requested(0, b), requested(b, c), requested(c, site.body.length)];
  assert.deepEqual(new Set(rangesOf(site.server)), new Set(all));
});

/**
 * Aborts a download of which three blocks from `first` on were written, and resolves with its directory: one by one from
 * the beginning of the file, or by the second connection while the first got none.
 */
async function begun(
  site: Site,
  first = 0,
  connections = 1,
  expected: DownloadOptions["expected"] = {},
): Promise<string> {
  const { server, body } = site;
  const stop = new AbortController();
  server.behave = gets((_nth, request, response) => {
    const [from = 0] = rangeOf(request, body) ?? [];
    return sendPart(request, response, body, from >= first ? 3 * mebibyte + 5 : 0);
  });
  const options = site.options({ connections, expected, signal: stop.signal });
  const ended = rejectionOf(download(options), Error);
  await until("three blocks are there", () => site.progress.bytesDone === 3 * mebibyte);
  stop.abort(new Error("killed"));
  assert.match(String(await ended), /killed/);
  server.asked.length = 0;
  server.behave = (_request, _response, serve) => serve();
  return options.directory;
}

/** Changes a byte of the received part on the disk. */
async function damage(directory: string): Promise<void> {
  await using data = await open(`${directory}/data`, "r+");
  await data.write(Buffer.from("damage"), 0, 6, mebibyte + 17);
}

describe("after an abort", () => {
  it("fetches only what is missing", async () => {
    await using site = await fetchSite();
    await begun(site);
    await comes(site, site.body, one);
    assert.deepEqual(rangesOf(site.server), [requested(3 * mebibyte, site.body.length)]);
  });

  it("fetches what is missing of each range", async () => {
    await using site = await fetchSite(36 * mebibyte);
    await begun(site, 32 * mebibyte, 2);
    await comes(site, site.body, one);
    const ranges = [requested(0, 32 * mebibyte), requested(35 * mebibyte, site.body.length)];
    assert.deepEqual(rangesOf(site.server), ranges);
  });

  it("deletes a received part that was changed on disk, says so, and begins again with the next attempt", async () => {
    await using site = await fetchSite();
    const expected = { sha256: sha256Of(site.body) };
    await damage(await begun(site, 0, 1, expected));
    const error = await failureOf(site, { ...one, expected });
    assert.equal(error.isTerminal, false);
    assert.match(
      error.message,
      /has the SHA-256 \w{64}, not \w{64}: what came was deleted, and the file is fetched again/,
    );
    await comes(site, site.body, { ...one, expected });
    const total = site.body.length;
    assert.deepEqual(rangesOf(site.server), [requested(3 * mebibyte, total), requested(0, total)]);
  });

  const spoiled: Readonly<Record<string, (directory: string) => Promise<void>>> = {
    "the record is cut off": async (directory) => await truncate(`${directory}/record.json`, 100),
    "the file is shorter than the record says": async (directory) => await truncate(`${directory}/data`, mebibyte),
    "the file is gone": async (directory) => await rm(`${directory}/data`),
  };
  for (const [what, spoil] of Object.entries(spoiled))
    it(`begins again where ${what}`, async () => {
      await using site = await fetchSite();
      await spoil(await begun(site));
      await comes(site, site.body, one);
      assert.deepEqual(rangesOf(site.server), [requested(0, site.body.length)]);
    });

  it("begins again where the server has another file by then", async () => {
    await using site = await fetchSite();
    await begun(site);
    const other = Buffer.from(site.body).fill(7, 0, 100);
    site.server.files.set("/model.gguf", { body: other, etag: '"two"' });
    await comes(site, other);
  });
});

const refusing =
  (status: number, headers = {}): Behaviour =>
  (_request, response) =>
    response.writeHead(status, headers).end();
const isMute: Behaviour = () => undefined;
const good: Behaviour = (_request, _response, serve) => serve();
const at = (url: string): Ending => ({ more: { text: url, source: webSource(url) } });

interface Ending {
  readonly expected?: Change["expected"];
  readonly more?: Change;
  readonly retryAfterMs?: number;
}

describe("an attempt ends", () => {
  const rows: readonly (readonly [reason: string, message: RegExp, behave: Behaviour, Ending?])[] = [
    ["ChecksumMismatch", /has the SHA-256 \w{64}, not 0{64}: what/, good, { expected: { sha256: "0".repeat(64) } }],
    ["SizeMismatch", / has \d+ bytes at \S+, not the 5 that are declared$/, good, { expected: { sizeBytes: 5 } }],
    ["NoSpace", /are needed and \d+ are free, of which \d+ stay free/, good, { more: { reserveBytes: 2 ** 50 } }],
    ["FetchFailed", /answers HTTP 502/, refusing(502)],
    ["FetchFailed", /answers HTTP 429/, refusing(429, { "retry-after": "3600" }), { retryAfterMs: 3_600_000 }],
    ["FetchFailed", /^127\.0\.0\.1:\d+ has sent nothing for 0\.05 s, 7 times in a row$/, isMute],
    [
      "FetchFailed",
      /^nowhere\.invalid cannot be reached: .*\((ENOTFOUND|EAI_AGAIN)\); check the net/,
      good,
      at("https://nowhere.invalid/a.gguf"),
    ],
    [
      "FetchFailed",
      /^127\.0\.0\.1:1 cannot be reached: it refuses.*\(ECONNREFUSED\); check/,
      good,
      at("http://127.0.0.1:1/a.gguf"),
    ],
  ];
  for (const [reason, message, behave, ending = {}] of rows)
    it(`with ${reason}: ${message.source}`, async () => {
      await using site = await fetchSite();
      site.server.behave = behave;
      const { expected = {}, more = {}, retryAfterMs } = ending;
      const stallMs = behave === isMute ? 50 : 60_000;
      const network = { ...site.options().network, stallMs, retryMs: 1 };
      const error = await failureOf(site, { network, expected, ...more });
      const isTerminal = reason.endsWith("Mismatch");
      assert.deepEqual([error.reason, error.isTerminal, error.retryAfterMs], [reason, isTerminal, retryAfterMs]);
      assert.match(error.message, message);
      assert.equal(existsSync(site.options().directory) && isTerminal, false, "nothing of a wrong file stays");
      if (/7 times/.test(message.source)) assert.ok(error.message.startsWith(site.progress.trouble ?? "none"));
    });
});

it("keeps to a limit of the bandwidth", async () => {
  await using site = await fetchSite(mebibyte);
  const began = performance.now();
  await download(site.options({ rate: new RateLimit(2 * mebibyte) }));
  const seconds = (performance.now() - began) / 1000;
  assert.ok(seconds > 0.4, `1 MiB at 2 MiB/s took ${seconds} s`);
});
