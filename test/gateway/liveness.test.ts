import assert from "node:assert/strict";
import { it } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };

it("a gateway of another machine than its operator holds requests until the operator's heartbeat changes, however wrong its clock is", async () => {
  await using engine = await scriptedEngine(sayHello);
  const elsewhere = { bootId: "another", heartbeat: "2020-01-01T00:00:00.000Z" };
  const slots = { primary: { state: "ready", port: engine.port } } as const;
  await using gateway = await startGateway({ slots, operator: elsewhere });
  const heartbeat = async (): Promise<string | undefined> =>
    /^\[(.)\]operator_heartbeat/m.exec(await (await fetch(`${gateway.url}/readyz?verbose`)).text())?.[1];
  const held = gateway.post("/v1/chat/completions", chat);
  await until("it is held", () => gateway.demand("primary")?.held === 1);
  assert.equal(engine.seen.length, 0, "what is published may be of before a reboot");
  assert.equal(await heartbeat(), "-");
  await gateway.publishOperator(elsewhere);
  assert.equal((await held).status, 200);
  await until("its life is seen", async () => {
    // A busy machine may look only when the heartbeat before is too old again.
    await gateway.publishOperator(elsewhere);
    return (await heartbeat()) === "+";
  });
});

it("the probes list their sources on request", async () => {
  await using gateway = await startGateway();
  const text = async (path: string): Promise<string> => await (await fetch(gateway.url + path)).text();
  assert.equal(await text("/livez"), "ok\n");
  assert.equal(await text("/livez?verbose"), "[+]process ok\n[+]event loop ok\n");
  assert.match(await text("/readyz?verbose"), /^\[\+\]serving ok\n/);
});
