import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";
import { goOn, manifest, openStream, pidOf, writeSlot } from "./fixture.ts";

const tokens = ["token0 ", "token1 ", "token2 "];
const flags = ["--hold", "--tokens", "3"];

it("an edit waits for the stream of its slot, holds the next request, and leaves the other slot alone", async () => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      for (const name of ["coder", "other"]) await writeSlot(directories, name, manifest(flags));
    },
  });
  for (const name of ["coder", "other"]) await berth.state(name, "ready", "idle");
  const [before, other] = [await pidOf(berth, "coder"), await pidOf(berth, "other")];
  const streams = [await openStream(berth, "coder"), await openStream(berth, "other")] as const;
  await writeSlot(berth, "coder", manifest(flags, '[env]\nA = "1"\n'));
  await berth.state("coder", "unloading");
  const next = later(openStream(berth, "coder"));
  await until("another request is held", async () => (await berth.slot("coder"))["held"] === 1);
  assert.equal(await pidOf(berth, "coder"), before, "the engine runs on for its stream");
  await goOn(berth, "coder");
  assert.deepEqual(await streams[0].ended, tokens);
  const held = await next;
  assert.notEqual(await pidOf(berth, "coder"), before);
  for (const name of ["coder", "other"]) await goOn(berth, name);
  assert.deepEqual([await held.ended, await streams[1].ended], [tokens, tokens]);
  assert.equal(await pidOf(berth, "other"), other);
});
