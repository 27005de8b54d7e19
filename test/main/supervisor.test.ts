import assert from "node:assert/strict";
import { it } from "node:test";
import { packagesOf } from "../support/packages.ts";

// Memory at rest: commands, settings and their schemas took three quarters of the parent's.
it("the parent of operator and gateway loads its log, and no other package", async () => {
  const packages = await packagesOf("src/main/supervise.ts");
  assert.deepEqual([...packages.keys()].toSorted(), ["pino"], JSON.stringify([...packages]));
});
