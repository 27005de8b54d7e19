import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { chat } from "../paths/fixture.ts";
import { berthProcess } from "../support/command.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { testDaemon, type TestDaemon } from "./daemon.ts";
import { engineImage, importEngineImage, importVariant } from "./images.ts";
import { testSocket } from "./docker-site.ts";
import { startRegistry } from "./registry.ts";

const processSlot = `engine = "custom"\nruntime = "process"\ncommand = [${JSON.stringify(process.execPath)}, ${JSON.stringify(join(import.meta.dirname, "../doubles/engine.ts"))}]\n[model]\ndefault = "double"\n`;

async function berth(daemon: TestDaemon, image = engineImage): Promise<RunningBerth> {
  const slot = `engine = "custom"\nimage = "${image}"\n[model]\ndefault = "double"\n[probe]\ninterval_seconds = 1\n`;
  return await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${daemon.socketPath}` },
    prepare: async ({ configDir }) => {
      await writeFile(join(configDir, "slots/primary.toml"), slot);
      await writeFile(join(configDir, "slots/other.toml"), processSlot);
    },
  });
}

/** `Status/Reason` of a condition, all at one moment. */
async function conditions(running: RunningBerth): Promise<(type: string) => string> {
  const slot = await running.slot("primary");
  return (type) => {
    const found = conditionOf(slot, type);
    return found === undefined ? "none" : `${found.status}/${found.reason}`;
  };
}

async function reason(running: RunningBerth, type: string): Promise<string> {
  return (await conditions(running))(type);
}

async function container(running: RunningBerth): Promise<string | undefined> {
  return (await readPublished(running.stateDir, "primary"))?.status.processes[0]?.containerId;
}

async function ready(running: RunningBerth, slot = "primary"): Promise<void> {
  await until(`${slot} is ready`, async () =>
    ["ready", "idle", "serving"].includes(String((await running.slot(slot))["state"])),
  );
}

const ask = async (running: RunningBerth): Promise<number> => (await chat(running, "primary"))[0];

/** Asks without a pause while `work` runs; resolves with the status of each answer, 0 where there was none. */
async function underLoad(running: RunningBerth, work: () => Promise<void>): Promise<readonly number[]> {
  const answers: number[] = [];
  let isOver = false;
  const load = (async () => {
    while (!isOver) answers.push(await ask(running).catch(() => 0));
  })();
  try {
    await until("it is under load", () => answers.filter((status) => status === 200).length > 10);
    await work();
  } finally {
    isOver = true;
    await load;
  }
  return answers;
}

test(
  "a daemon that is down at the start is reported, other slots run, and the daemon is used once it is up",
  { timeout: 300_000 },
  async () => {
    await using daemon = await testDaemon();
    await using running = await berth(daemon);
    await running.state("primary", "error");
    assert.equal(await reason(running, "Ready"), "False/RuntimeUnavailable");
    assert.match(
      (await readPublished(running.stateDir, "primary"))?.plan.message ?? "",
      /docker\.sock does not answer/,
    );
    await ready(running, "other");
    assert.equal((await readPublished(running.stateDir, "primary"))?.status.failures, 0);
    await daemon.start();
    await importEngineImage(daemon.socketPath);
    // The image was not there when the daemon came: an edit asks again.
    await writeFile(
      join(running.configDir, "slots/primary.toml"),
      `engine = "custom"\nimage = "${engineImage}"\n[env]\nA = "1"\n`,
    );
    await ready(running);
  },
);

test(
  "a daemon with live-restore restarts: the container runs on, and no container is started again",
  { timeout: 300_000 },
  async () => {
    await using daemon = await testDaemon({ isLiveRestore: true });
    await daemon.start();
    await importEngineImage(daemon.socketPath);
    await using running = await berth(daemon);
    await ready(running);
    const before = await container(running);
    const answers = await underLoad(running, async () => {
      await daemon.stop();
      // The container runs on, and the daemon's proxy, through which it is reached, does not.
      await until("it is not called available, and why", async () => {
        const told = await conditions(running);
        return told("Available").startsWith("False") && told("Ready") === "False/RuntimeUnavailable";
      });
      await daemon.start();
      await ready(running);
      await until("all is well", async () => (await reason(running, "Ready")) === "True/Loaded");
    });
    assert.equal(await container(running), before);
    assert.equal((await readPublished(running.stateDir, "primary"))?.status.restarts, 0);
    assert.equal(await ask(running), 200);
    // Requests wait meanwhile, for ten seconds, and are then told to come again; the one that was on its way when the
    // daemon's proxy went may have been cut off.
    const failed = answers.filter((status) => status !== 200 && status !== 503);
    assert.ok(failed.length <= 1, `${failed.join()} among ${answers.length} answers`);
  },
);

test(
  "a daemon without live-restore restarts under load: the slot is not ready while no container runs, and is ready again afterwards",
  { timeout: 300_000 },
  async () => {
    await using daemon = await testDaemon();
    await daemon.start();
    await importEngineImage(daemon.socketPath);
    await using running = await berth(daemon);
    await ready(running);
    const before = await container(running);
    await underLoad(running, async () => {
      await daemon.stop();
      await running.state("primary", "error");
      await daemon.start();
      await ready(running);
    });
    assert.notEqual(await container(running), before);
    assert.equal(await ask(running), 200);
  },
);

test(
  "a daemon hangs while Berth is stopped: other engines end, and containers that may still run are reported",
  {
    timeout: 300_000,
  },
  async () => {
    await using daemon = await testDaemon();
    await daemon.start();
    await importEngineImage(daemon.socketPath);
    await using running = await berth(daemon);
    await ready(running);
    await ready(running, "other");
    const { port } = await running.slot("other");
    const left = await container(running);
    assert.ok(left !== undefined);
    daemon.freeze();
    assert.equal(await running.stop("SIGINT"), 0);
    await assert.rejects(fetch(`http://127.0.0.1:${String(port)}/health`));
    await until("it is told", () => /engines may still run; `berth down` ends them/.test(running.log()));
    daemon.wake();
    const down = await berthProcess(["down"], running.env);
    assert.deepEqual([down.code, down.stdout], [0, "stopped primary\n"]);
    await assert.rejects(daemon.api.getContainer(left).inspect(), /no such container/i);
  },
);

test("a disk that is full during a pull: reported, and the pull is retried", { timeout: 300_000 }, async () => {
  const dataRoot = await mkdtemp(join(tmpdir(), "berth-small-"));
  assert.equal(
    spawnSync("mount", ["-t", "tmpfs", "-o", "size=96m", "tmpfs", dataRoot]).status,
    0,
    "mount a small disk",
  );
  try {
    await using registry = await startRegistry();
    await importVariant(testSocket(), "berth-test/large:1");
    const image = await registry.take(testSocket(), "berth-test/large:1");
    await using daemon = await testDaemon({ dataRoot });
    await daemon.start();
    await using running = await berth(daemon, image);
    // Until it is tried again.
    await until("it is told", async () => {
      const told = await conditions(running);
      return told("Ready") === "False/NoSpace" && told("Reconciling") === "True/ProgressingWithRetry";
    });
    // By its history: a try may be over before one looks.
    await until("it is tried again", async () => {
      const transitions = (await readPublished(running.stateDir, "primary"))?.status.transitions ?? [];
      return transitions.filter(({ to }) => to === "pulling").length > 1;
    });
  } finally {
    spawnSync("umount", ["-l", dataRoot]);
    await rm(dataRoot, { recursive: true, force: true });
  }
});
