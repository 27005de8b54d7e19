import assert from "node:assert/strict";
import { join } from "node:path";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { pino } from "pino";
import { loadConfig } from "../../src/api/config.ts";
import { runGateway } from "../../src/gateway/main.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };

/** Another gateway over the same state. */
async function beside(stateDir: string): Promise<{ readonly url: string } & AsyncDisposable> {
  const { config } = loadConfig(
    { SVC_STATE_DIR: stateDir, SVC_CONFIG_DIR: join(stateDir, "config"), SVC_HOST: "127.0.0.1", SVC_PORT: "0" },
    {},
    { isRoot: false, home: stateDir, xdgConfigHome: undefined, xdgStateHome: undefined },
  );
  assert.ok(config !== undefined);
  const running = await runGateway(config, { log: pino({ level: "silent" }), version: "0.0.0-test" });
  return { url: running.url, [Symbol.asyncDispose]: () => running.close({ drainSeconds: 0 }) };
}

/** State, requests in flight, in the queue and held. */
async function shown(url: string, slot: string): Promise<readonly unknown[]> {
  const body: unknown = await (await fetch(`${url}/api/slots/${slot}`)).json();
  return isRecord(body) ? [body["state"], body["in_flight"], body["queued"], body["held"]] : [];
}

it("each of two gateways shows the requests of both, until the other one ends", async () => {
  const open: [ServerResponse, Seen][] = [];
  await using engine = await scriptedEngine((response, seen) => void open.push([response, seen]));
  const spec = { concurrency: { max: 1, queue: 8 } };
  await using one = await startGateway({
    slots: { primary: { port: engine.port, spec }, chat: { state: "starting", spec: { model: { default: "m" } } } },
  });
  const all = [one.post("/v1/chat/completions", chat)];
  {
    await using two = await beside(one.stateDir);
    const body = JSON.stringify(chat);
    const headers = { "content-type": "application/json" };
    const send = (text: string): Promise<Response> =>
      fetch(`${two.url}/v1/chat/completions`, { method: "POST", headers, body: text });
    const others = [send(body), send(body), send(body.replace("primary", "chat"))].map((each) =>
      each.catch(() => undefined),
    );
    await until("both engines' places are taken", () => open.length === 2);
    for (const url of [one.url, two.url]) {
      await until(`${url} shows all requests`, async () => {
        const [found, held] = [await shown(url, "primary"), await shown(url, "chat")];
        return JSON.stringify([found, held]) === '[["serving",2,1,0],["starting",0,0,1]]';
      });
    }
    for (const next of open.splice(0)) sayHello(...next);
    await until("the last one is inside", () => open.length === 1);
    await until("the first gateway shows the other one's request", async () => {
      return JSON.stringify(await shown(one.url, "primary")) === '["serving",1,0,0]';
    });
    for (const next of open.splice(0)) sayHello(...next);
    await Promise.all(others.slice(0, 2));
  }
  await until("its own requests alone are left", async () => {
    return JSON.stringify(await shown(one.url, "chat")) === '["starting",0,0,0]';
  });
  for (const answer of await Promise.all(all)) assert.equal(answer.status, 200);
});
