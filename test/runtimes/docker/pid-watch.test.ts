import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { it } from "node:test";
import type { Living } from "../../../src/runtimes/docker/inspected.ts";
import { PidWatch } from "../../../src/runtimes/docker/pid-watch.ts";
import { until } from "../../support/until.ts";
import { container } from "./fixture.ts";

it("reports a container whose first process is gone, and none that was never seen or is known to have ended", async () => {
  const child = spawn("sleep", ["600"]);
  const { pid: Pid = 0 } = child;
  const ended = once(child, "exit");
  const told: string[] = [];
  let looks = 0;
  // No process has this number: the limit of the kernel is below it.
  const elsewhere = container("elsewhere", { Pid: 2 ** 22 + 1 });
  const containers = (): Living[] => {
    looks += 1;
    return [container("c1", { Pid }), elsewhere, container("ended", { Pid, Running: false })];
  };
  using _watch = new PidWatch(containers, (id) => told.push(id));
  await until("all were looked at", () => looks > 1);
  assert.deepEqual(told, []);
  child.kill("SIGKILL");
  await ended;
  await until("it is told", () => told.length > 0);
  assert.deepEqual([...new Set(told)], ["c1"]);
});
