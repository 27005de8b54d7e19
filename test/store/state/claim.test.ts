import assert from "node:assert/strict";
import fs from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { it } from "node:test";
import { takeClaim } from "../../../src/store/state/claim.ts";
import { tempDir } from "../../support/temp-dir.ts";

it("of several that take over the claim of a process that is gone, one holds it at a time", async () => {
  await using directory = await tempDir();
  const path = `${directory.path}/claim`;
  let held = 0;
  for (let round = 0; round < 20; round += 1) {
    fs.writeFileSync(path, "");
    const gone = new Date(Date.now() - 11_000);
    fs.utimesSync(path, gone, gone);
    const takers = Array.from({ length: 8 }, async () => {
      await using claim = await takeClaim(path);
      held += 1;
      assert.equal(held, 1, `round ${round}`);
      await delay(1);
      assert.ok(claim.isSafe());
      held -= 1;
    });
    await Promise.all(takers);
  }
  assert.deepEqual(fs.readdirSync(directory.path), []);
});
