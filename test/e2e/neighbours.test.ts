import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { goOn, manifest, openStream, pidOf, writeSlot } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";

const steady = manifest(["--hold", "--tokens", "3"]);

/** The published file of each slot, to the byte: its revision, processes, transitions. */
async function published(berth: RunningBerth): Promise<ReadonlyMap<string, string>> {
  const directory = join(berth.stateDir, "slots");
  const files = (await readdir(directory)).filter((file) => file.endsWith(".json")).toSorted();
  return new Map(
    await Promise.all(files.map(async (file) => [file, await readFile(join(directory, file), "utf8")] as const)),
  );
}

test("an edit and a crash of one of 40 slots leave the others, and their open streams, alone", async () => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      await writeSlot(directories, "steady", steady);
      await writeSlot(directories, "other", manifest());
      for (let nth = 0; nth < 38; nth += 1) await writeSlot(directories, `s${nth}`, `enabled = false\n${steady}`);
    },
  });
  for (const name of ["steady", "other"]) await berth.state(name, "ready", "idle");
  await until("every slot has been looked at", async () => {
    const text = await readFile(join(berth.stateDir, "operator.json"), "utf8");
    return publishedOperatorSchema.parse(JSON.parse(text)).isSettled;
  });
  const [steadyPid, otherPid] = [await pidOf(berth, "steady"), await pidOf(berth, "other")];
  const stream = await openStream(berth, "steady");
  // The operator measures memory every ten seconds, and publishes the first figure, and the first one since it is ready.
  await until("the memory of the steady one is measured", async () => {
    const { memory, fit } = await berth.slot("steady");
    return memory !== null && fit?.stage === "measured";
  });
  const before = await published(berth);

  await writeSlot(berth, "other", manifest(["--tokens", "3"]));
  const edited = await until("the other is started anew", async () => {
    const pid = await pidOf(berth, "other");
    return pid !== undefined && pid !== otherPid && pid;
  });
  process.kill(edited, "SIGKILL");
  await until("its crash is seen", async () => (await berth.slot("other"))["last_error"] !== null);
  const after = await published(berth);
  const changed = [...after].filter(([file, text]) => text !== before.get(file)).map(([file]) => file);
  assert.deepEqual([changed, after.size], [["other.json"], before.size]);

  // What does not reach the engine is no reason to touch it either.
  await writeSlot(berth, "steady", `aliases = ["gpt"]\n${steady}`);
  await until("the alias is given", async () => (await berth.slot("steady")).aliases?.includes("gpt"));
  await goOn(berth, "steady");
  assert.deepEqual(await stream.ended, ["token0 ", "token1 ", "token2 "]);
  assert.equal(await pidOf(berth, "steady"), steadyPid);
});
