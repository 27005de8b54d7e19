import assert from "node:assert/strict";
import { request as httpRequest, type ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { sayHello, scriptedEngine, type ScriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { startGateway, type TestGateway } from "./auth/gateway.ts";

/** Asks as one client does; resolves with the status once the answer has ended. */
type Client = (gateway: TestGateway, word: string) => Promise<number>;

function client(localAddress: string, headers: Record<string, string> = {}): Client {
  return (gateway, word) =>
    new Promise((resolve, reject) => {
      const request = httpRequest(
        {
          host: "127.0.0.1",
          port: gateway.port,
          localAddress,
          method: "POST",
          path: "/v1/chat/completions",
          headers: { "content-type": "application/json", ...headers },
          agent: false,
        },
        (response) => response.resume().once("end", () => resolve(response.statusCode ?? 0)),
      );
      request.once("error", reject);
      request.end(JSON.stringify({ model: "primary", messages: [{ role: "user", content: word }] }));
    });
}

/** The order in which the engine gets one request of the one client and, later, one of the other. */
async function orderOf(gateway: TestGateway, engine: ScriptedEngine, busy: Client, other: Client): Promise<string[]> {
  const open: [ServerResponse, Seen][] = [];
  engine.answer((response, seen) => void open.push([response, seen]));
  const answers: Promise<number>[] = [];
  const wait = async (asked: Promise<number>): Promise<void> => {
    answers.push(asked);
    const waiting = answers.length - 1;
    if (waiting === 0) await until("the first is inside", () => open.length === 1);
    else {
      await until(
        `${waiting} wait`,
        async () => (await gateway.metric('berth_requests_queued{slot="primary"}')) === waiting,
      );
    }
  };
  for (let nth = 1; nth <= 5; nth++) await wait(busy(gateway, `busy-${nth}`));
  await wait(other(gateway, "other"));
  for (let nth = 1; nth <= 6; nth++) {
    await until("one is inside", () => open.length === 1);
    const [next] = open.splice(0);
    if (next !== undefined) sayHello(...next);
  }
  assert.deepEqual(await Promise.all(answers), [200, 200, 200, 200, 200, 200]);
  return engine.seen.map(({ body }) => /busy-\d|other/.exec(body)?.[0] ?? body);
}

const spec = { concurrency: { max: 1 } };
/** The other client had one turn to wait for, not five. */
const fair = ["busy-1", "busy-2", "other", "busy-3", "busy-4", "busy-5"];
const inTurn = ["busy-1", "busy-2", "busy-3", "busy-4", "busy-5", "other"];

describe("of a slot that is busy clients take turns", () => {
  it("by address, without authentication", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({}, { primary: { port: engine.port, spec } });
    assert.deepEqual(await orderOf(gateway, engine, client("127.0.0.1"), client("127.0.0.2")), fair);
  });

  it("and one address is one client, whatever it says of itself", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({}, { primary: { port: engine.port, spec } });
    const forged = { "x-forwarded-for": "10.0.0.1", "x-forwarded-email": "eve", authorization: "Bearer x" };
    assert.deepEqual(await orderOf(gateway, engine, client("127.0.0.1"), client("127.0.0.1", forged)), inTurn);
  });

  it("by token, with authentication, wherever they come from", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port, spec } });
    const holder = async (label: string): Promise<Record<string, string>> => ({
      authorization: `Bearer ${(await gateway.tokens.create({ label, scope: "v1-only" })).token}`,
    });
    const [first, second] = [await holder("same label"), await holder("same label")];
    assert.deepEqual(
      await orderOf(gateway, engine, client("127.0.0.1", first), client("127.0.0.1", second)),
      fair,
      "two tokens are two clients",
    );
    engine.seen.splice(0);
    assert.deepEqual(
      await orderOf(gateway, engine, client("127.0.0.1", first), client("127.0.0.2", first)),
      inTurn,
      "one token is one client",
    );
  });
});
