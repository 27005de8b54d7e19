import assert from "node:assert/strict";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { openInstance } from "../../../src/store/state/instance.ts";
import { fileLeadership } from "../../../src/store/state/leadership.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

it("a standby leads where the state directory was deleted, and keeps the name of the installation", async () => {
  await using directory = await tempDir();
  const stateDir = join(directory.path, "state");
  let losses = 0;
  const leadership = fileLeadership(stateDir);
  await using first = await leadership.lead({ onLost: () => (losses += 1) });
  const name = await openInstance(stateDir);
  let isWaiting = false;
  const standby = { onWaiting: () => (isWaiting = true), signal: new AbortController().signal };
  const second = leadership.lead({ onLost: assert.fail, standby });
  await until("it waits", () => isWaiting);
  // At once: the standby makes files again in a directory that is only being emptied.
  await rename(stateDir, join(directory.path, "deleted"));
  await using lease = await second;
  assert.equal(await openInstance(stateDir), name);
  lease.check();
  await until("the first has lost it", () => losses === 1);
  assert.throws(() => first.check(), { name: "LeadershipLost" });
});
