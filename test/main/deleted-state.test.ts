import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { until } from "../support/until.ts";
import { operatorPid } from "../support/published.ts";
import { engineOf, startUp } from "./coder.ts";

/** Its processes may write there meanwhile. */
const removal = { recursive: true, maxRetries: 50, retryDelay: 10 };

it("parts of the state that are deleted while berth up runs are written again, and without the whole its engine starts anew", async () => {
  await using berth = await startUp();
  // From here on nothing but the deletion has the operator write.
  await until("its memory is told", async () => (await berth.slot("coder"))["memory"] !== null);
  const before = await berth.slot("coder");
  const instance = join(berth.stateDir, "instance");
  const name = await readFile(instance, "utf8");
  for (const path of ["slots", "registry.json", "processes", "demand", "instance"])
    await rm(join(berth.stateDir, path), removal);
  for (const path of ["slots/coder.json", "registry.json", "processes/coder.main.json", "demand", "instance"])
    await until(`${path} is there again`, () => existsSync(join(berth.stateDir, path)));
  const after = await until("the gateway knows it again", async () => {
    const slot = await berth.slot("coder");
    return slot["generation"] !== undefined && slot;
  });
  assert.deepEqual([after["generation"], after["processes"]], [before["generation"], before["processes"]]);
  assert.equal(await readFile(instance, "utf8"), name);
  await until("health tells", async () =>
    JSON.stringify(await berth.get("/api/health/system")).includes("StateDeleted"),
  );
  // Only the look of each second says so.
  await until("the log tells", () =>
    /the state of .*coder.* was deleted while the operator runs; writing it again/.test(berth.log()),
  );

  const { pid } = await engineOf(berth);
  const operator = operatorPid(berth);
  await rename(berth.stateDir, `${berth.stateDir}-deleted`);
  await rm(`${berth.stateDir}-deleted`, removal);
  await until("that is told", () => /the state directory \S+ was deleted, or taken/.test(berth.log()));
  await until("the next operator has looked", async () => {
    const text = await readFile(join(berth.stateDir, "operator.json"), "utf8");
    const next = publishedOperatorSchema.parse(JSON.parse(text));
    return next.pid !== operator && next.isSettled;
  });
  assert.equal(await readFile(instance, "utf8"), name);
  const next = await engineOf(berth);
  // Without its record it is ended, and another one is started.
  if (next.pid !== pid) await until("the earlier engine has ended", () => startTimeOf(pid) === undefined);
  assert.equal((await fetch(`http://127.0.0.1:${next.port}/health`)).status, 200);
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.deepEqual([startTimeOf(pid), startTimeOf(next.pid)], [undefined, undefined]);
});
