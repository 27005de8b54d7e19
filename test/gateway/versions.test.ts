import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { publishedSlot, startGateway } from "../support/gateway.ts";
import { sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

it("a gateway under a later operator serves a slot in an unknown state, logs that once, and confirms its unloading", async () => {
  await using engine = await scriptedEngine(sayHello);
  await using gateway = await startGateway({ slots: { primary: { state: "ready", port: engine.port } } });
  const publish = async (revision: number, status: object): Promise<void> => {
    const slot = publishedSlot("primary", { state: "ready", port: engine.port }, revision);
    const text = JSON.stringify({ ...slot, status: { ...slot.status, ...status } });
    await writeFile(join(gateway.stateDir, "slots/primary.json"), text);
    await until("it is seen", () => gateway.running.seenRevision("primary") === revision);
  };
  for (const revision of [50, 51]) {
    await publish(revision, { state: "hibernating", capabilities: ["chat", "telepathy"] });
    const answer = await gateway.post("/v1/chat/completions", { model: "primary", messages: [] });
    assert.equal(answer.status, 200);
  }
  assert.equal(gateway.log().split("hibernating").length, 2);
  // Not even what is published otherwise can be read.
  await publish(52, { state: "unloading", restarts: "many" });
  await until("that is confirmed", () => gateway.demand("primary")?.seenRevision === 52);
});
