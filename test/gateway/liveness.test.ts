import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const longAgo = "2020-01-01T00:00:00.000Z";

async function heartbeat({ url }: TestGateway): Promise<unknown> {
  const health: unknown = await (await fetch(`${url}/readyz?verbose`)).text();
  return /^\[(.)\]operator_heartbeat/m.exec(String(health))?.[1];
}

describe("a gateway of another machine than its operator", () => {
  it("holds requests until the operator's heartbeat changes, then serves, however wrong the operator's clock is", async () => {
    await using engine = await scriptedEngine(sayHello);
    const elsewhere = { bootId: "another", heartbeat: longAgo };
    const slots = { primary: { state: "ready", port: engine.port } } as const;
    await using gateway = await startGateway({ slots, operator: elsewhere });
    const held = gateway.post("/v1/chat/completions", chat);
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    assert.equal(engine.seen.length, 0, "what is published may be of before a reboot");
    assert.equal(await heartbeat(gateway), "-");
    await gateway.publishOperator(elsewhere);
    assert.equal((await held).status, 200);
    await until("its life is seen", async () => {
      // A busy machine may look only when the heartbeat before is too old again.
      await gateway.publishOperator(elsewhere);
      return (await heartbeat(gateway)) === "+";
    });
    await until("the silence of the operator is seen", async () => (await heartbeat(gateway)) === "-");
    assert.equal((await gateway.post("/v1/chat/completions", chat)).status, 200, "engines outlive their operator");
  });

  it("serves at once where it starts beside an operator of its own machine", async (t) => {
    // No time goes by between the heartbeat and the gateway's look, however busy the machine is.
    t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
    await using engine = await scriptedEngine(sayHello);
    const heartbeatNow = new Date().toISOString();
    const slots = { primary: { state: "ready", port: engine.port } } as const;
    await using gateway = await startGateway({ slots, operator: { heartbeat: heartbeatNow } });
    assert.equal(await heartbeat(gateway), "+");
    assert.equal((await gateway.post("/v1/chat/completions", chat)).status, 200);
  });
});
