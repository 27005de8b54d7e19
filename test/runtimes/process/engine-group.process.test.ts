import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { it, mock } from "node:test";
import { readEntry } from "../../../src/lib/process-identity.ts";
import { EngineGroup } from "../../../src/runtimes/process/engine-group.ts";
import { Trust } from "../../../src/runtimes/process/label.ts";
import { listProcs } from "../../../src/runtimes/process/proc.ts";
import { until } from "../../support/until.ts";

for (const stopSeconds of [0, 600]) {
  it(`a process that this user may not signal is named, and the others are ended: after ${stopSeconds} s`, async () => {
    // The first one is refused: what follows it is not skipped.
    const leader = spawn("/bin/sh", ["-c", "sleep 3600 & exec sleep 3600"], { detached: true, stdio: "ignore" });
    const { pid } = leader;
    assert.ok(pid !== undefined);
    const entry = readEntry(pid);
    assert.ok(entry !== undefined);
    const session = (): number[] => listProcs().flatMap((each) => (each.session === pid ? [each.pid] : []));
    const child = await until("both run", () => session().find((each) => each !== pid));
    const kill = process.kill.bind(process);
    const refusing = mock.method(process, "kill", (target: number, signal: NodeJS.Signals) => {
      if (target === pid) throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
      return kill(target, signal);
    });
    try {
      const identity = { instance: "i", slot: "primary", role: "main", ordinal: 0, record: undefined } as const;
      const group = new EngineGroup({ ...identity, trust: new Trust([]) }, entry);
      await assert.rejects(group.end({ stopSeconds }, new AbortController().signal), {
        message: `primary (main): process ${pid} runs as another user, and may not be ended by this one: end it as root, and start the engine without sudo or the like`,
      });
      assert.deepEqual(session(), [pid]);
    } finally {
      refusing.mock.restore();
      for (const each of [child, pid]) if (session().includes(each)) kill(each, "SIGKILL");
      if (leader.exitCode === null && leader.signalCode === null) await once(leader, "exit");
    }
  });
}
