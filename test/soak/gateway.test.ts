import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { pino } from "pino";
import { startGateway, type SlotSketch } from "../support/gateway.ts";
import { helloChunks, json, sayHello, scriptedEngine, type Script } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { kinds, soak } from "./traffic.ts";

const requests = Number(process.env["BERTH_SOAK_REQUESTS"] ?? 6000);

const engineScript: Script = (response, seen) => {
  const user = /"user":"(\w+)"/.exec(seen.body)?.[1];
  const isStream = /"stream":true/.test(seen.body);
  if (seen.path.endsWith("transcriptions")) json(response, { text: "heard" });
  else if (user === "refuse") json(response, { error: { message: "no" } }, 400);
  else if (user === "fail") json(response, { error: { message: "no" } }, 500);
  else if (user === "close") response.destroy();
  else if (user === "hang" || user === "die") {
    if (!isStream) return;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(helloChunks[0], () => {
      if (user === "die") response.destroy();
    });
  } else sayHello(response, seen);
};

/** Bytes of heap after everything that nobody needs has been collected. */
async function heap(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  for (let count = 0; count < 4; count += 1) {
    if (typeof collect === "function") collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed;
}

/** What keeps this process alive, by kind. */
function held(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) {
    // Work of the moment, and the timer of whoever looks.
    if (/^(Timeout|Immediate|FSReqPromise|FSReqCallback|TickObject)$/.test(kind)) continue;
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  return counts;
}

test(`${requests} requests of all kinds leave nothing behind`, { timeout: 900_000 }, async (t) => {
  const warnings: string[] = [];
  const onWarning = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
  process.on("warning", onWarning);
  await using engine = await scriptedEngine(engineScript);
  const capabilities = ["chat", "completions", "embeddings", "transcription"] as const;
  const warm: SlotSketch = { port: engine.port, status: { capabilities: [...capabilities] } };
  await using gateway = await startGateway({
    slots: {
      primary: warm,
      narrow: { ...warm, spec: { concurrency: { max: 1, queue: 1 } } },
      coder: { spec: { enabled: false } },
      cold: { state: "starting" },
    },
    env: { SVC_BODY_LIMIT: "1000000" },
    gateway: {
      log: pino({ level: "info" }, { write: () => undefined }),
      accessLog: pino({ base: { component: "gateway" } }, { write: () => undefined }),
      commentTimes: { firstMs: 20, everyMs: 20 },
    },
  });
  const round = async (count: number): Promise<number> => {
    assert.deepEqual(await soak(gateway.url, count, 16), []);
    await until("nothing is under way", async () => {
      const page = await (await fetch(`${gateway.url}/metrics`, { headers: { connection: "close" } })).text();
      const busy = /^berth_(requests_(in_flight|queued|held)\{.*\}|shared_stream_readers) [1-9]/m;
      return !busy.test(page);
    });
    engine.seen.length = 0;
    // Kept connections end with the engine.
    await engine.stop();
    await engine.restart();
    return await heap();
  };

  await round(kinds.length * 40);
  await until("client and engine are gone", () => (held()["TCPSocketWrap"] ?? 0) === 0);
  const resources = held();
  const after: number[] = [];
  for (let nth = 0; nth < 3; nth += 1) after.push(await round(Math.ceil(requests / 3)));
  await until("no more is open than before", () => isDeepStrictEqual(held(), resources));
  t.diagnostic(`heap after each round: ${after.map((bytes) => `${(bytes / 1e6).toFixed(2)} MB`).join(", ")}`);
  const [first = 0, , last = 0] = after;
  assert.ok(last < first * 1.05, `the heap grew from ${first} to ${last} bytes`);
  assert.deepEqual(await readdir(join(gateway.stateDir, "spool")), []);
  process.off("warning", onWarning);
  assert.deepEqual(warnings, []);
});
