import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { until } from "../support/until.ts";
import { operatorPid } from "../support/published.ts";
import type { RunningBerth } from "../support/berth.ts";
import { chat, engineOf, startUp } from "./coder.ts";

/** Its processes may write there meanwhile. */
const removal = { recursive: true, maxRetries: 50, retryDelay: 10 };

const instanceOf = (berth: RunningBerth): Promise<string> => readFile(join(berth.stateDir, "instance"), "utf8");

/** Deletes something. Resolves with the operator's last line, once the next operator has looked at everything. */
async function afterDeletion(berth: RunningBerth, deletion: () => Promise<void>): Promise<string> {
  const operator = operatorPid(berth);
  const ends = (): readonly string[] => berth.log().match(/^.* this operator ends, and .*$/gm) ?? [];
  const before = ends().length;
  await deletion();
  await until("the operator ends", () => ends().length > before);
  await until("the next operator has looked", async () => {
    const text = await readFile(join(berth.stateDir, "operator.json"), "utf8").catch(() => undefined);
    if (text === undefined) return false;
    const next = publishedOperatorSchema.parse(JSON.parse(text));
    return next.pid !== operator && next.isSettled;
  });
  return ends().at(-1) ?? "";
}

it("files of the state that are deleted while berth up runs are written again", async () => {
  await using berth = await startUp();
  // From here on nothing but the deletion has the operator write.
  await until("its memory is told", async () => (await berth.slot("coder"))["memory"] !== null);
  const before = await berth.slot("coder");
  const operator = operatorPid(berth);
  const deleted = ["slots/coder.json", "registry.json", "processes", "demand"];
  for (const path of deleted) await rm(join(berth.stateDir, path), removal);
  for (const path of [...deleted, "processes/coder.main.json"])
    await until(`${path} is there again`, () => existsSync(join(berth.stateDir, path)));
  const after = await until("the gateway knows it again", async () => {
    const slot = await berth.slot("coder");
    return slot["generation"] !== undefined && slot;
  });
  assert.deepEqual([after["generation"], after["processes"]], [before["generation"], before["processes"]]);
  // Only the look of each second says so.
  assert.match(berth.log(), /coder: its status is not written: it was deleted/);
  assert.equal(operatorPid(berth), operator);
});

it("a deleted directory of statuses, name or whole state ends the operator; the next finds or ends each engine", async () => {
  await using berth = await startUp();
  const name = await instanceOf(berth);
  const { pid } = await engineOf(berth);

  const remove = async (path: string): Promise<void> => await rm(join(berth.stateDir, path), removal);
  const line = await afterDeletion(berth, () => remove("slots"));
  assert.match(line, /\/state\/slots was deleted while the operator runs; .* engines are left to the next start$/);
  // Adopted by its record: the same process serves on.
  assert.equal((await engineOf(berth)).pid, pid);
  assert.equal((await chat(berth)).status, 200);

  assert.match(await afterDeletion(berth, () => remove("instance")), /\/state\/instance was deleted while/);
  assert.equal(await instanceOf(berth), name);
  assert.equal((await engineOf(berth)).pid, pid);

  const whole = async (): Promise<void> => {
    await rename(berth.stateDir, `${berth.stateDir}-deleted`);
    await rm(`${berth.stateDir}-deleted`, removal);
  };
  assert.match(await afterDeletion(berth, whole), /\/state\S* was deleted/);
  assert.equal(await instanceOf(berth), name);
  const next = await engineOf(berth);
  // Without its record it is ended, and another one is started.
  if (next.pid !== pid) await until("the earlier engine has ended", () => startTimeOf(pid) === undefined);
  assert.equal((await fetch(`http://127.0.0.1:${next.port}/health`)).status, 200);
  assert.equal(await berth.stop("SIGINT"), 0);
  assert.deepEqual([startTimeOf(pid), startTimeOf(next.pid)], [undefined, undefined]);
});
