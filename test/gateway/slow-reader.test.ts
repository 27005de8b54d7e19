import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { chunk, json, scriptedEngine, type Script } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const lastEvent = 699;
/** 9 MB, more than all sockets on the way hold. */
const events = Array.from({ length: lastEvent + 1 }, (_, nth) =>
  chunk({ content: `${nth} ${"x".repeat((nth * 37) % 60_000)}` }, nth === lastEvent ? "stop" : null),
);

function manyEvents(type: string): Script {
  return async (response) => {
    response.writeHead(200, { "content-type": type });
    await pipeline(Readable.from(events), response);
  };
}

/** Asks with HTTP/1.0, so that what comes is the answer without chunks, ended by closing. */
function ask({ running }: TestGateway, body: object): Socket {
  const client = connect({ port: running.port, host: "127.0.0.1" });
  const text = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }], ...body });
  client.write(
    `POST /v1/chat/completions HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
  return client;
}

/** Takes each piece some turns of the event loop late, so that the gateway fills up and drains again and again. */
async function readInFits(client: Socket): Promise<string> {
  let text = "";
  let pieces = 0;
  for await (const piece of client) {
    text += String(piece);
    pieces += 1;
    for (let turn = 0; turn < pieces % 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  }
  return text;
}

/** What the engine said, from its first word on. */
function words(answer: string): string {
  const from = answer.indexOf('"content":"0 ');
  assert.ok(from >= 0, answer.slice(0, 500));
  return answer.slice(from).replaceAll('"model":"primary"', '"model":"engine-model"');
}

function assertWhole(answer: string): void {
  assert.ok(words(answer) === words(events.join("")), `${answer.length} bytes came of ${events.join("").length}`);
}

async function assertIdle(gateway: TestGateway): Promise<void> {
  const inFlight = (): Promise<number | undefined> => gateway.metric('berth_requests_in_flight{slot="primary"}');
  await until("nothing is in flight", async () => (await inFlight()) === 0);
}

describe("a client that reads in bursts", () => {
  it("gets every byte of a stream, and of other bytes, in order", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    for (const type of ["text/event-stream", "application/octet-stream"]) {
      engine.answer(manyEvents(type));
      assertWhole(await readInFits(ask(gateway, { stream: true })));
      await assertIdle(gateway);
    }
  });

  it("is counted once as 499 where it leaves before it has the whole of an answer", async () => {
    const answer = { model: "primary", words: "x".repeat(7_000_000) };
    await using engine = await scriptedEngine((response) => json(response, answer));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const client = ask(gateway, {});
    await once(client, "readable");
    await assertIdle(gateway);
    client.destroy();
    const count = (code: number): Promise<number | undefined> =>
      gateway.metric(`berth_requests_total{route="/v1/chat/completions",slot="primary",code="${code}"}`);
    await until("it is counted", async () => (await count(499)) === 1);
    assert.equal(await count(200), undefined);
  });
});
