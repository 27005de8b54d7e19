import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { startBerth } from "../support/berth.ts";
import { chat, manifest, pidOf, writeSlot } from "./fixture.ts";

const member = 'load = "onDemand"\ngroup = "gpu"\n';

it("a request for a slot of a full group makes the idle member leave, and each request is answered", async () => {
  await using berth = await startBerth({
    prepare: async (directories) => {
      await mkdir(join(directories.configDir, "groups"));
      await writeFile(
        join(directories.configDir, "groups/gpu.toml"),
        "max_wait_seconds = 5\nmin_residency_seconds = 0\n[budget]\nslots = 1\n",
      );
      for (const name of ["one", "two"]) await writeSlot(directories, name, manifest([], member));
    },
  });
  assert.equal((await chat(berth, "one"))[0], 200);
  const first = (await pidOf(berth, "one")) ?? assert.fail("no engine is published");
  assert.equal((await chat(berth, "two"))[0], 200);
  assert.equal(startTimeOf(first), undefined);
  const left = await berth.slot("one");
  assert.deepEqual([left["state"], left["processes"]], ["offline", []]);
  assert.match(JSON.stringify(left["transitions"]), /"reason":"Preempted"/);
  assert.equal((await chat(berth, "one"))[0], 200);
});
