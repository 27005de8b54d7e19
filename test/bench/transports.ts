/**
 * Measures our HTTP/1.1 client towards engines beside undici, in turns, on the interface that both implement:
 *
 *   node_modules/.bin/node test/bench/transports.ts [seconds of a turn]
 *
 * Prints microseconds of this process's processor time for each chat and for each event of a stream. The engine is a double
 * in a process of its own. docs/adr/0010-one-exchange.md has the results.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Pool } from "undici";
import { EnginePool } from "../../src/engine-client/client.ts";
import { UndiciTransport } from "../../src/gateway/providers/undici-transport.ts";
import type { ExchangeRequest, Transport } from "../../src/lib/exchange.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";

const seconds = Number(process.argv[2] ?? "4");
const turns = 5;
const eventsOfStream = 200;
const timeouts = { firstByteMs: 60_000, idleMs: 60_000 };

const port = await freePort();
const engine = fork(fileURLToPath(new URL("programs/engine.ts", import.meta.url)), ["--port", String(port)]);
await until("the engine is ready", async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok);

const transports: Readonly<Record<string, Transport>> = {
  ours: new EnginePool({ host: "127.0.0.1", port }),
  undici: new UndiciTransport({
    client: new Pool(`http://127.0.0.1:${port}`, { connections: 1024, pipelining: 1 }),
    address: (path) => path,
    headers: {},
  }),
};

const cases = [
  { what: "a chat, 1 connection", connections: 1, isStream: false },
  { what: "a chat, 32 connections", connections: 32, isStream: false },
  { what: "a chat, 256 connections", connections: 256, isStream: false },
  { what: "an event, 100 streams", connections: 100, isStream: true },
] as const;
for (const { what, connections, isStream } of cases) {
  const costs: Record<string, number[]> = { ours: [], undici: [] };
  for (let turn = -1; turn < turns; turn++)
    for (const [name, transport] of Object.entries(transports)) {
      const cost = await costOf(transport, connections, isStream);
      if (turn >= 0) costs[name]?.push(cost);
    }
  const [ours, undici] = [costs["ours"], costs["undici"]].map((all = []) => all.toSorted((a, b) => a - b));
  const shown = (all: readonly number[] = []): string =>
    `${all[2]?.toFixed(1)} µs (${all[0]?.toFixed(1)} to ${all.at(-1)?.toFixed(1)})`;
  console.log(`${what}: ours ${shown(ours)}, undici ${shown(undici)}`);
}
engine.kill();
await once(engine, "exit");
process.exit(0);

/** Microseconds of processor time for each request, or for each event where they stream. */
async function costOf(transport: Transport, connections: number, isStream: boolean): Promise<number> {
  const text = JSON.stringify({
    model: "fixed",
    messages: [{ role: "user", content: "x".repeat(800) }],
    ...(isStream && { stream: true, events: eventsOfStream }),
  }).replace('"stream": true', '"stream":true');
  const body = [Buffer.from(text)];
  const request: ExchangeRequest = {
    method: "POST",
    path: "/v1/chat/completions",
    accept: isStream ? "text/event-stream" : "application/json",
    contentType: "application/json",
    body,
  };
  const ends = performance.now() + seconds * 1000;
  let count = 0;
  const before = process.cpuUsage();
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < ends) {
        await exchange(transport, request);
        count += 1;
      }
    }),
  );
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count / (isStream ? eventsOfStream : 1);
}

async function exchange(transport: Transport, request: ExchangeRequest): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let bytes = 0;
    transport.send(
      request,
      { timeouts, requestId: "bench" },
      {
        onHead: ({ status }) => {
          if (status !== 200) reject(new Error(`status ${status}`));
        },
        onData: (chunk) => void (bytes += chunk.length),
        onEnd: () => (bytes > 0 ? resolve() : reject(new Error("no byte"))),
        onError: reject,
      },
    );
  });
}
