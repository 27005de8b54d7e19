import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";
import { chat, goOn, manifest, openStream, pidOf, writeSlot } from "./fixture.ts";

it("a killed operator is started again and adopts the engine, whose stream goes on; a killed engine is loaded again", async () => {
  await using berth = await startBerth({
    prepare: (directories) => writeSlot(directories, "coder", manifest(["--hold"])),
  });
  await berth.state("coder", "ready", "idle");
  const engine = (await pidOf(berth, "coder")) ?? assert.fail("no engine is published");
  const stream = await openStream(berth, "coder");
  const killed = operatorPid(berth);
  process.kill(killed, "SIGKILL");
  await until("another operator leads", () => operatorPid(berth) !== killed);
  await writeSlot(berth, "coder", manifest(["--hold"], 'aliases = ["gpt"]\n'));
  await until("the new operator acts on an edit", async () =>
    JSON.stringify((await berth.slot("coder"))["aliases"]).includes("gpt"),
  );
  assert.equal(await pidOf(berth, "coder"), engine);
  await goOn(berth, "coder");
  assert.equal((await stream.ended).length, 8);

  await writeSlot(berth, "coder", manifest());
  const edited = await until("the edited engine is ready", async () => {
    const pid = await pidOf(berth, "coder");
    return pid !== engine && ["ready", "idle"].includes(String((await berth.slot("coder"))["state"])) && pid;
  });
  process.kill(edited, "SIGKILL");
  const slot = await until("another engine is ready", async () => {
    const pid = await pidOf(berth, "coder");
    const found = await berth.slot("coder");
    return pid !== edited && ["ready", "idle"].includes(String(found["state"])) && found;
  });
  assert.equal(slot["restarts"], 1);
  assert.match(JSON.stringify(slot["last_error"]), /"reason":"Signalled".*SIGKILL/);
  assert.equal((await chat(berth, "coder"))[0], 200);
});
