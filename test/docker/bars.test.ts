import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import Dockerode from "dockerode";
import { idleProcessMs } from "../support/pace.ts";
import { freePorts } from "../support/ports.ts";
import { readPublished } from "../support/published.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { countingSocket } from "./counting-socket.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage } from "./images.ts";

const runningCount = 16;
const restingCount = 34;
const api = new Dockerode({ socketPath: testSocket() });
const names = Array.from({ length: runningCount }, (_, index) => `slot-${index}`);
const text = `engine = "custom"\nimage = "${engineImage}"\n[model]\ndefault = "double"\n`;

async function operatorPid(running: RunningBerth): Promise<number> {
  const published: { pid: number } = JSON.parse(await readFile(join(running.stateDir, "operator.json"), "utf8"));
  return published.pid;
}

/** Of a share of a core. */
const isQuiet = (share: number): boolean => share < 0.1;

/** Seconds of processor time that the process has used. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

async function containerOf(running: RunningBerth, slot: string): Promise<string | undefined> {
  return (await readPublished(running.stateDir, slot))?.status.processes[0]?.containerId;
}

/**
 * The bars of fifty slots, of which sixteen run. Figures are printed as diagnostics; what is asserted leaves room for a
 * machine that does other things.
 */
test(
  "fifty slots with sixteen containers are quiet at rest, report a death quickly, and are all adopted",
  { timeout: 600_000 },
  async (context: TestContext) => {
    await using socket = await countingSocket(testSocket());
    const { first, last } = await freePorts(runningCount + 4);
    await using running = await startBerth({
      env: {
        SVC_RUNTIME: "docker",
        DOCKER_HOST: `unix://${socket.path}`,
        SVC_SLOT_PORTS: `${first}-${last}`,
        SVC_LOG_LEVEL: "warn",
      },
      prepare: async ({ configDir }) => {
        for (const name of names) await writeFile(join(configDir, `slots/${name}.toml`), text);
        for (let index = 0; index < restingCount; index++) {
          await writeFile(join(configDir, `slots/resting-${index}.toml`), `load = "onDemand"\n${text}`);
        }
      },
    });
    await until(
      "all are ready",
      async () => {
        const states = await Promise.all(
          names.map(async (name) => (await readPublished(running.stateDir, name))?.status.state),
        );
        return states.every((state) => state === "ready");
      },
      240_000,
    );
    const before = await Promise.all(names.map((name) => containerOf(running, name)));

    await until("the starts have left nothing to do", async () => {
      const asked = socket.asked.length;
      await delay(2000);
      return socket.asked.length === asked;
    });
    // Idle, for longer than two probes of each slot. On a busy machine the same work takes more time: then once more.
    const idleSeconds = 12;
    const pid = await operatorPid(running);
    const shares: number[] = [];
    while (shares.length < 3 && !shares.some(isQuiet)) {
      socket.asked.length = 0;
      const used = cpuSeconds(pid);
      await delay(idleSeconds * 1000);
      const share = (cpuSeconds(pid) - used) / idleSeconds;
      shares.push(share);
      context.diagnostic(`idle: ${(share * 100).toFixed(2)} % of a core, asked ${socket.asked.length} times`);
      // The sweep once a minute may fall into this time, and is the only one that lists.
      const lists = socket.asked.filter((line) => line.endsWith("/containers/json"));
      assert.ok(lists.length <= 1, `${lists.length} lists`);
    }
    assert.ok(shares.some(isQuiet), `${shares.join(", ")} of a core`);

    // One is killed by the kernel's hand.
    const [victim = ""] = before;
    const killedAt = Date.now();
    process.kill((await api.getContainer(victim).inspect()).State.Pid, "SIGKILL");
    const told = await until(
      "its end is told",
      async () => {
        const status = (await readPublished(running.stateDir, "slot-0"))?.status;
        return status?.lastError?.reason === "Signalled" && status.lastError;
      },
      30_000,
    );
    const again = await until("it was started again", async () => {
      const status = (await readPublished(running.stateDir, "slot-0"))?.status;
      return status?.processes[0]?.containerId !== victim && status?.processes[0]?.startedAt;
    });
    context.diagnostic(
      `killed: told after ${Date.parse(told.time) - killedAt} ms, started after ${Date.parse(again) - killedAt} ms`,
    );
    await until("it is ready", async () => (await readPublished(running.stateDir, "slot-0"))?.status.state === "ready");
    assert.match(told.message, /SIGKILL/);

    // The operator is killed; requests go on.
    const known = await Promise.all(names.map((name) => containerOf(running, name)));
    let isOver = false;
    using stack = new DisposableStack();
    // Whatever fails before its end, it must not hide that.
    stack.defer(() => void (isOver = true));
    const failures: string[] = [];
    const ask = async (model: string | undefined): Promise<void> => {
      const response = await fetch(`${running.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] }),
      });
      const body = await response.text();
      if (response.status !== 200) failures.push(`${response.status} ${body}`);
    };
    const load = (async () => {
      for (let turn = 0; !isOver; turn++) {
        await ask(names[turn % names.length]).catch((error: unknown) => failures.push(String(error)));
      }
    })();
    process.kill(pid, "SIGKILL");
    await until("another operator writes", async () => (await operatorPid(running)) !== pid);
    const heartAt = Date.now();
    await until("it is ready", async () => (await fetch(`${running.operatorUrl}/readyz`)).ok);
    context.diagnostic(
      `adopted: ${runningCount} containers within ${Date.now() - heartAt} ms of the operator's first heartbeat`,
    );
    isOver = true;
    await load;
    assert.deepEqual(failures, []);
    assert.deepEqual(await Promise.all(names.map((name) => containerOf(running, name))), known);
    for (const name of names) {
      const status = (await readPublished(running.stateDir, name))?.status;
      assert.equal(status?.state, "ready", name);
      assert.equal(status?.restarts, name === "slot-0" ? 1 : 0, name);
    }
  },
);

/** What the double says: when it was loaded, first healthy, and answered its warm-up request; and its start. */
async function timesOf(id: string): Promise<{ loaded: number; healthy: number; answered: number; started: number }> {
  const container = api.getContainer(id);
  const started = Date.parse((await container.inspect()).State.StartedAt);
  // The daemon may have the last line a little later than Berth has the answer.
  return await until("it has told its times", async () => {
    const output = (await container.logs({ stdout: true, follow: false })).toString("latin1");
    const [loaded = Number.NaN, healthy = Number.NaN, answered = Number.NaN] = ["loaded", "healthy", "answered"].map(
      (what) => Date.parse(new RegExp(`${what} at (\\S+)`).exec(output)?.[1] ?? ""),
    );
    return Number.isNaN(answered) ? undefined : { loaded, healthy, answered, started };
  });
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

test("what the operator adds to an engine's own start", { timeout: 180_000 }, async (context: TestContext) => {
  await using running = await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${testSocket()}`, SVC_LOG_LEVEL: "warn" },
  });
  const readyAfter = async (slot: string, previous?: string): Promise<{ id: string; readyAt: number }> =>
    await until(`${slot} is ready`, async () => {
      const status = (await readPublished(running.stateDir, slot))?.status;
      const id = status?.processes[0]?.containerId;
      if (status?.state !== "ready" || id === undefined || id === previous) return undefined;
      return { id, readyAt: Date.now() };
    });
  const costs: number[] = [];
  const allowances: number[] = [];
  let known = { slot: "", id: "" };
  // One after the other, so that no engine pays for another's start. A llama slot is warmed up; the double has no
  // model.
  for (const [index, loadMs] of [0, 500, 1000, 2000, 4000, 6000].entries()) {
    const slot = `cost-${index}`;
    const command = ["/usr/bin/node", "/app/engine.ts", "--tell-times", "--load-ms", String(loadMs)];
    const manifest = `engine = "llama"\nimage = "${engineImage}"\ncommand = ${JSON.stringify(command)}\n`;
    await writeFile(join(running.configDir, `slots/${slot}.toml`), `${manifest}[model]\ndefault = "double"\n`);
    const idle = idleProcessMs();
    const { id, readyAt } = await readyAfter(slot);
    const { loaded, healthy, answered } = await timesOf(id);
    // The engine could have answered its health from `loaded` on, whether or not anybody asked.
    const cost = readyAt - loaded;
    costs.push(cost);
    allowances.push(10 * (await idle));
    context.diagnostic(
      `loads ${loadMs} ms: ready ${cost} ms after it was loaded (asked after ${healthy - loaded}, warm-up answered after ${answered - loaded})`,
    );
    assert.ok(loaded <= healthy && healthy <= answered && answered <= readyAt, "told in this order");
    if (index === 0) known = { slot, id };
  }
  context.diagnostic(`ready ${median(costs)} ms after the engine was loaded (median; worst ${Math.max(...costs)} ms)`);
  const beyond = costs.map((cost, index) => cost - (allowances[index] ?? 0));
  assert.ok(median(beyond) < 2000, `${costs.join(", ")} ms, less ${allowances.join(", ")}`);

  // One crash after a minute of service is met at once; a younger engine's is taken for a failed start, and waits 1 s.
  const since = Date.parse((await readPublished(running.stateDir, known.slot))?.status.readySince ?? "");
  await until("it has served for a minute", () => Date.now() - since > 60_500, 90_000);
  const killedAt = Date.now();
  process.kill((await api.getContainer(known.id).inspect()).State.Pid, "SIGKILL");
  const idle = idleProcessMs();
  const again = await readyAfter(known.slot, known.id);
  const { started, loaded } = await timesOf(again.id);
  const own = loaded - started;
  const added = again.readyAt - killedAt - own;
  context.diagnostic(
    `killed: started again after ${started - killedAt} ms, ready after ${added} ms plus ${own} ms of the engine's own`,
  );
  const boundMs = 10_000 + 10 * (await idle);
  assert.ok(added < boundMs, `${added} ms, of ${boundMs}`);
});
