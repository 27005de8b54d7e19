import assert from "node:assert/strict";
import { createServer } from "node:http";
import { it } from "node:test";
import { chat, manifest, pidOf, writeSlot } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { listen } from "../support/listen.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";

/** Probed once an hour: nothing but a look at the socket can tell in time. */
const text = manifest([], "[probe]\ninterval_seconds = 3600\n");

it("an engine whose socket goes is restarted; where another program takes its port, the slot moves, and that program gets no request", async () => {
  await using berth = await startBerth({ prepare: (directories) => writeSlot(directories, "solo", text) });
  const before = await berth.state("solo", "ready", "idle");
  const pid = await pidOf(berth, "solo");
  const deafen = async (port: number): Promise<void> => {
    assert.equal((await fetch(`http://127.0.0.1:${port}/double/deafen`, { method: "POST" })).status, 200);
  };
  await deafen(Number(before["port"]));
  const now = await until("another engine serves", async () => {
    const slot = await berth.slot("solo");
    return ["ready", "idle"].includes(String(slot["state"])) && (await pidOf(berth, "solo")) !== pid && slot;
  });
  await until("the log tells why", () =>
    /solo: error: the main process no longer listens on port \d+/.test(berth.log()),
  );
  assert.equal((await chat(berth, "solo"))[0], 200);

  let heard = 0;
  const stranger = createServer((_request, response) => {
    heard += 1;
    response.end("{}");
  });
  // The operator looks again only once the stranger has the port: the engine's successor would take that one.
  const operator = operatorPid(berth);
  process.kill(operator, "SIGSTOP");
  const port = Number(now["port"]);
  await deafen(port);
  await listen(stranger, port);
  process.kill(operator, "SIGCONT");
  try {
    await until("the slot has moved", async () => {
      const slot = await berth.slot("solo");
      return ["ready", "idle"].includes(String(slot["state"])) && slot["port"] !== port;
    });
    const why = `solo: error: another process listens on port ${port} of the engine`;
    await until("the log tells why", () => berth.log().includes(why));
    const heardBefore = heard;
    for (let turn = 0; turn < 5; turn++) assert.equal((await chat(berth, "solo"))[0], 200);
    assert.equal(heard, heardBefore);
  } finally {
    stranger.closeAllConnections();
    stranger.close();
  }
});
