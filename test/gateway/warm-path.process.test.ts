import assert from "node:assert/strict";
import { AsyncLocalStorage, createHook } from "node:async_hooks";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import fs from "node:fs";
import { createServer } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import { describe, it, mock } from "node:test";
import { json, sayHello, scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import type { SlotSketch } from "../support/gateway.ts";
import { listen } from "../support/listen.ts";
import { startGateway, type TestGateway } from "./auth/gateway.ts";

const rounds = 20;
const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
/** A request without a body is a GET. */
const requests: readonly (readonly [path: string, body?: object])[] = [
  ["/v1/chat/completions", chat],
  ["/v1/chat/completions", { ...chat, stream: true }],
  ["/v1/completions", { model: "test-model", prompt: "hi" }],
  ["/v1/embeddings", { model: "primary", input: "hi" }],
  ["/v1/rerank", { model: "primary", query: "hi", documents: ["hi"] }],
  ["/v1/messages", { ...chat, max_tokens: 1 }],
  ["/v1/audio/speech", { model: "primary", input: "hi", voice: "alloy" }],
  ["/v1/models"],
  ["/v1/chat/completions", { ...chat, model: "nobody" }],
];
const syncCalls = [
  "accessSync",
  "existsSync",
  "fsyncSync",
  "lstatSync",
  "openSync",
  "readFileSync",
  "readSync",
  "readdirSync",
  "realpathSync",
  "renameSync",
  "statSync",
  "writeFileSync",
  "writeSync",
] as const;

/** What is done for a request to an HTTP server of this process, and not by a timer that runs anyway. */
const forRequest = new AsyncLocalStorage<true>();
const mark = (): void => forRequest.enterWith(true);

/** How often requests asked the file system for something, by kind, until disposed. */
class DiskCount implements Disposable {
  readonly counts = new Map<string, number>();
  readonly #hook = createHook({
    init: (_id, type) => {
      if (/^(FS|FILEHANDLE)/.test(type) && type !== "FSEVENTWRAP") this.#count(type);
    },
  }).enable();
  readonly #mocks = syncCalls.map((name) => {
    const real = fs[name];
    return mock.method(fs, name, (...given: unknown[]): unknown => {
      this.#count(name);
      return Reflect.apply(real, fs, given);
    });
  });

  constructor() {
    syncBuiltinESMExports();
    subscribe("http.server.request.start", mark);
  }

  get sum(): number {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0);
  }

  [Symbol.dispose](): void {
    unsubscribe("http.server.request.start", mark);
    this.#hook.disable();
    for (const each of this.#mocks) each.mock.restore();
    syncBuiltinESMExports();
  }

  #count(what: string): void {
    if (forRequest.getStore() === undefined) return;
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}

async function ask(gateway: TestGateway, headers: Record<string, string>): Promise<void> {
  for (const [path, body] of requests) {
    const response =
      body === undefined
        ? await fetch(new URL(path, gateway.url), { headers })
        : await gateway.post(path, body, { headers: { "content-type": "application/json", ...headers } });
    await response.text();
    assert.ok(response.status === 200 || response.status === 404, `${path}: ${response.status}`);
  }
}

/** What the disk was asked for by so many rounds of requests; heartbeats and sweeps do not count. */
async function costOf(gateway: TestGateway, headers: Record<string, string> = {}): Promise<DiskCount["counts"]> {
  // What is loaded at a first request is loaded.
  for (let round = 0; round < 3; round++) await ask(gateway, headers);
  using count = new DiskCount();
  await using probe = await probeServer();
  for (let nth = 0; nth < 2; nth++) await (await fetch(probe.url)).text();
  const probed = Object.fromEntries(count.counts);
  assert.deepEqual(probed, { FSREQPROMISE: 2, statSync: 2 }, "what is counted is counted");
  count.counts.clear();
  for (let round = 0; round < rounds; round++) await ask(gateway, headers);
  return new Map(count.counts);
}

/** A server that asks the file system for something at once, and again later, for each request. */
async function probeServer(): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((_request, response) => {
    setImmediate(() => {
      fs.statSync(".");
      void fs.promises.stat(".").then(() => response.end());
    });
  });
  const url = `http://127.0.0.1:${await listen(server)}`;
  return {
    url,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const sketch = (port: number): SlotSketch => ({
  port,
  status: { capabilities: ["chat", "completions", "embeddings", "rerank", "speech"] },
});

async function engineDouble(): Promise<ScriptedEngine> {
  return await scriptedEngine((response, seen) => {
    if (seen.path.endsWith("embeddings")) json(response, { model: "engine-model", data: [] });
    else if (seen.path.endsWith("rerank")) json(response, { results: [{ index: 0, relevance_score: 1 }] });
    else if (seen.path.endsWith("speech")) response.writeHead(200, { "content-type": "audio/mpeg" }).end("sound");
    else sayHello(response, seen);
  });
}

describe("a request to a warm slot", () => {
  it("costs one `stat` of its token where authentication is on, and nothing else", async () => {
    await using engine = await engineDouble();
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: sketch(engine.port) });
    const counts = await costOf(gateway, { authorization: `Bearer ${await gateway.token("v1-only")}` });
    const stats = counts.get("statSync") ?? 0;
    assert.ok(stats > rounds, `the token is looked at: ${stats}`);
    // Nobody is asked who lists the models.
    const limit = rounds * (requests.length - 1) + rounds / 2;
    assert.ok(stats < limit, `${stats} for ${rounds * requests.length} requests`);
    counts.delete("statSync");
    const others = [...counts.values()].reduce((total, each) => total + Math.max(0, each), 0);
    assert.ok(others < rounds / 2, JSON.stringify([...counts]));
  });
});
