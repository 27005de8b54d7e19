import assert from "node:assert/strict";
import { it } from "node:test";
import { startBerth } from "../support/berth.ts";
import { operatorPid, readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { manifest, writeSlot } from "./fixture.ts";

it("a standby leads after the death of the leader, acts on the edit made meanwhile, and restarts no engine", async () => {
  await using first = await startBerth({
    args: ["operator"],
    prepare: (directories) => writeSlot(directories, "coder", manifest()),
  });
  const published = async (): Promise<Awaited<ReturnType<typeof readPublished>>> =>
    await readPublished(first.stateDir, "coder");
  const before = await until("the engine is ready", async () => {
    const slot = await published();
    return slot?.status.state === "ready" ? slot.status : undefined;
  });
  const { SVC_OPERATOR_PORT: _own, ...shared } = first.env;
  await using second = await startBerth({ args: ["operator", "--standby", "--stop-engines"], env: shared });
  const readiness = async (): Promise<string> => await (await fetch(`${second.operatorUrl}/readyz`)).text();
  await until("the second stands by", async () => (await readiness()).trim() === "standby");
  first.child.kill("SIGKILL");
  await writeSlot(first, "coder", manifest([], "idle_seconds = 77\n"));
  await until("the edit has converged", async () => (await published())?.spec.idleSeconds === 77);
  assert.equal(operatorPid(first), second.child.pid);
  await until("it is ready", async () => (await readiness()).trim() === "ok");
  const after = (await published())?.status;
  assert.deepEqual(
    after?.processes.map(({ pid }) => pid),
    before.processes.map(({ pid }) => pid),
  );
  assert.equal(after?.restarts, 0);
});
