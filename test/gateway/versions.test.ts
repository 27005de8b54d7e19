import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { demandSchema } from "../../src/api/status.ts";
import { publishedSlot, startGateway, type TestGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

async function chat({ url }: TestGateway): Promise<number> {
  const body = JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
  await response.text();
  return response.status;
}

async function seenRevision({ stateDir }: TestGateway): Promise<number | undefined> {
  const [file = ""] = await readdir(join(stateDir, "demand"));
  const text = await readFile(join(stateDir, "demand", file), "utf8");
  return demandSchema.parse(JSON.parse(text)).slots["primary"]?.seenRevision;
}

describe("a gateway under an operator of before there were replicas", () => {
  it("finds the engine at its endpoint, sends its bearer, and reports it as ordinal 0", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: {} } });
    const slot = publishedSlot("primary", { state: "ready", port: engine.port }, 50);
    const processes = slot.status.processes.map(({ ordinal: _ordinal, host: _host, ...process }) => process);
    const text = JSON.stringify({ ...slot, status: { ...slot.status, processes }, bearers: { main: "secret" } });
    await writeFile(join(gateway.stateDir, "slots/primary.json"), text);
    await until("it is seen", () => gateway.running.seenRevision("primary") === 50);
    assert.equal(await chat(gateway), 200);
    assert.equal(engine.seen[0]?.headers.authorization, "Bearer secret");
    await until("it is told", () => gateway.demand("primary")?.endpoints?.[0]?.lastByteAt !== undefined);
    const told = gateway.demand("primary")?.endpoints?.map(({ role, ordinal, inFlight }) => [role, ordinal, inFlight]);
    assert.deepEqual(told, [["main", 0, 0]]);
  });
});

describe("a gateway under a later operator", () => {
  it("serves a slot in an unknown state, logs that once, and confirms its unloading", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { state: "ready", port: engine.port } } });
    assert.equal(await chat(gateway), 200);
    const publish = async (revision: number, status: object): Promise<void> => {
      const slot = publishedSlot("primary", { state: "ready", port: engine.port }, revision);
      const text = JSON.stringify({ ...slot, status: { ...slot.status, ...status } });
      await writeFile(join(gateway.stateDir, "slots/primary.json"), text);
      await until("it is seen", () => gateway.running.seenRevision("primary") === revision);
    };
    await publish(50, { state: "hibernating", capabilities: ["chat", "telepathy"] });
    assert.equal(await chat(gateway), 200);
    await publish(51, { state: "hibernating", capabilities: ["chat", "telepathy"] });
    assert.equal(await chat(gateway), 200);
    assert.equal(gateway.log().split("hibernating").length, 2);
    // Not even what is published otherwise can be read.
    await publish(52, { state: "unloading", restarts: "many" });
    await until("that is confirmed", async () => (await seenRevision(gateway)) === 52);
  });
});
