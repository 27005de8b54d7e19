import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { it } from "node:test";
import { untilStopped } from "../../src/program/signals.ts";

for (const [event, kind] of [
  ["SIGINT", "interrupt"],
  ["SIGTERM", "terminate"],
  ["SIGHUP", "terminate"],
  ["disconnect", "interrupt"],
] as const)
  it(`${event} stops a service, and a second signal ends it at once`, async () => {
    const source = new EventEmitter();
    const { stopped, again } = untilStopped(source);
    source.emit(event);
    assert.equal(await stopped, kind);
    assert.equal(again.aborted, false);
    source.emit("SIGTERM");
    assert.equal(again.aborted, true);
  });

it("a service stops whose parent ended before it listened", async () => {
  const source = Object.assign(new EventEmitter(), { connected: false });
  assert.equal(await untilStopped(source).stopped, "interrupt");
});
