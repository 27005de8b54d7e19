import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { startGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };

/** Waits until a gateway shows these: state, requests in flight, in the queue and held. */
async function showing(url: string, slot: string, expected: string): Promise<void> {
  await until(`${url} shows ${expected} of ${slot}`, async () => {
    const body: unknown = await (await fetch(`${url}/api/slots/${slot}`)).json();
    const shown = isRecord(body) ? [body["state"], body["in_flight"], body["queued"], body["held"]] : [];
    return JSON.stringify(shown) === expected;
  });
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
    await using two = await startGateway({ env: { SVC_STATE_DIR: one.stateDir } });
    const bodies = [chat, chat, { ...chat, model: "chat" }];
    const others = bodies.map((body) => two.post("/v1/chat/completions", body));
    await until("both engines' places are taken", () => open.length === 2);
    for (const url of [one.url, two.url]) {
      await showing(url, "primary", '["serving",2,1,0]');
      await showing(url, "chat", '["starting",0,0,1]');
    }
    for (const next of open.splice(0)) sayHello(...next);
    await until("the last one is inside", () => open.length === 1);
    await showing(one.url, "primary", '["serving",1,0,0]');
    for (const next of open.splice(0)) sayHello(...next);
    await Promise.all(others.slice(0, 2));
  }
  await showing(one.url, "chat", '["starting",0,0,0]');
  for (const answer of await Promise.all(all)) assert.equal(answer.status, 200);
});
