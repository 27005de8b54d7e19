import assert from "node:assert/strict";
import { existsSync, watch } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { startBerth } from "../support/berth.ts";
import { publishedSlot } from "../support/gateway.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";
import { coder, engineOf, save } from "./coder.ts";

it("a standby takes over from an operator that hangs for longer than its lease, which does nothing more when it continues", async () => {
  await using stack = new AsyncDisposableStack();
  const first = stack.use(await startBerth({ args: ["operator"], prepare: save }));
  await until("the first leads", () => existsSync(join(first.stateDir, "operator.lock")));
  const { SVC_OPERATOR_PORT: _own, ...shared } = first.env;
  const second = stack.use(await startBerth({ args: ["operator", "--standby", "--stop-engines"], env: shared }));
  // The test may fail while it has stopped the first, which would then not end.
  stack.defer(() => void first.child.kill("SIGKILL"));
  const before = await engineOf(first);
  // A standby reads the name of the installation before it logs who leads.
  await until("the second stands by", () => second.log().includes("the operator that leads is process"));
  first.child.kill("SIGSTOP");
  await until("the second leads", () => operatorPid(first) === second.child.pid);
  assert.deepEqual(await engineOf(first), before);
  // Another engine: the first knows of an engine that has ended, and would start one.
  await save(first, coder("", "--tokens", "9"));
  const after = await engineOf(first, (pid) => pid !== before.pid);
  const record = join(first.stateDir, "processes/coder.main.json");
  const written = await readFile(record, "utf8");
  const said = first.log().length;
  first.child.kill("SIGCONT");
  assert.equal(await first.ended, 1);
  assert.match(first.log().slice(said), /taken by another operator/);
  assert.deepEqual(await engineOf(first), after);
  assert.equal(await readFile(record, "utf8"), written);
  assert.equal(operatorPid(first), second.child.pid);
});

it("an operator after a reboot publishes that engines have ended before its first heartbeat, after which gateways trust the state", async () => {
  const written: string[] = [];
  using stack = new DisposableStack();
  await using next = await startBerth({
    args: ["operator", "--stop-engines"],
    prepare: async (dirs) => {
      await save(dirs);
      // As the reboot left it.
      const stateDir = join(dirs.configDir, "../state");
      const publisher = await openPublisher(stateDir);
      await publisher.writeSlot(publishedSlot("coder", { port: 9 }, 1));
      const operator = publishedOperatorSchema.parse({
        schema: 1,
        instance: "i",
        pid: 2 ** 22,
        bootId: "before",
        startedAt: "2026-01-01T00:00:00.000Z",
        heartbeat: "2026-01-01T00:00:00.000Z",
        incarnation: "before",
        beat: 1,
        isPaused: false,
        isSettled: true,
        slotCount: 1,
        configDir: dirs.configDir,
        problems: [],
      });
      await writeFile(join(stateDir, "operator.json"), JSON.stringify(operator));
      await mkdir(join(stateDir, "slots"), { recursive: true });
      for (const directory of [stateDir, join(stateDir, "slots")]) {
        const watcher = watch(directory, (_, file) => written.push(file ?? ""));
        stack.defer(() => watcher.close());
      }
    },
  });
  await until("it has settled", () => /operator watches/.test(next.log()));
  await until("both files are told", () => written.includes("coder.json") && written.includes("operator.json"));
  assert.ok(written.indexOf("coder.json") < written.indexOf("operator.json"), written.join(" "));
});
