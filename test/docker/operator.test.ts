import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import Dockerode from "dockerode";
import { conditionOf } from "../../src/cli/slot-words.ts";
import { chat } from "../paths/fixture.ts";
import { carriers } from "../runtimes/process/site.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage } from "./images.ts";
import { later } from "../support/later.ts";

const api = new Dockerode({ socketPath: testSocket() });
const double = join(import.meta.dirname, "../doubles/engine.ts");

/** A slot that is the fake engine, as a container and, with `runtime = "process"`, as a process. */
function slot(more = ""): string {
  return `engine = "custom"\nimage = "${engineImage}"\n${more}\n[model]\ndefault = "double"\n[probe]\ninterval_seconds = 1\n`;
}

async function berth(slots: Readonly<Record<string, string>>, env: NodeJS.ProcessEnv = {}): Promise<RunningBerth> {
  return await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${testSocket()}`, ...env },
    prepare: async ({ configDir }) => {
      for (const [name, text] of Object.entries(slots)) await writeFile(join(configDir, "slots", `${name}.toml`), text);
    },
  });
}

async function containers(running: RunningBerth): Promise<Dockerode.ContainerInfo[]> {
  const all = await api.listContainers({ all: true, filters: { label: ["dev.berth.slot=primary"] } });
  const { first, last } = running.ports;
  return all.filter(({ Labels: { "dev.berth.port": port } }) => Number(port) >= first && Number(port) <= last);
}

it("moves a slot from process to container and back, never with two alive", { timeout: 300_000 }, async () => {
  const command = `command = [${JSON.stringify(process.execPath)}, ${JSON.stringify(double)}]`;
  const asProcess = slot(`runtime = "process"\n${command}`);
  await using running = await berth({ primary: asProcess });
  await running.state("primary", "ready", "idle");
  assert.equal((await running.slot("primary"))["runtime"], "process");
  const file = join(running.configDir, "slots/primary.toml");
  const instance = (await readFile(join(running.stateDir, "instance"), "utf8")).trim();
  const seen = new Set<number>();
  let isDone = false;
  using stack = new DisposableStack();
  stack.defer(() => void (isDone = true));
  const runningIds = async (): Promise<Set<string>> =>
    new Set((await containers(running)).filter(({ State: state }) => state === "running").map(({ Id: id }) => id));
  const watching = later(
    (async () => {
      while (!isDone) {
        // A container that ran before and after ran beside every process that is seen in between.
        const before = await runningIds();
        const processes = carriers(instance).length;
        seen.add(processes + before.intersection(await runningIds()).size);
      }
    })(),
  );
  await writeFile(file, slot('runtime = "docker"'));
  await until("it is a container", async () => {
    const status = await running.slot("primary");
    return status["runtime"] === "docker" && ["ready", "idle"].includes(String(status["state"]));
  });
  assert.equal((await chat(running, "primary"))[0], 200);
  assert.equal((await containers(running)).length, 1);
  await writeFile(file, asProcess);
  await until("it is a process", async () => {
    const status = await running.slot("primary");
    return status["runtime"] === "process" && ["ready", "idle"].includes(String(status["state"]));
  });
  isDone = true;
  await watching;
  assert.equal((await chat(running, "primary"))[0], 200);
  assert.deepEqual(await containers(running), []);
  // None for a moment, which may be over between two looks.
  assert.deepEqual(seen.union(new Set([0])), new Set([0, 1]), "never two");
});

it("reports an invalid image, and mounts that a container may not have", { timeout: 300_000 }, async () => {
  await using running = await berth({ primary: 'engine = "custom"\nimage = "Berth/engine:1"\n' });
  const file = join(running.configDir, "slots/primary.toml");
  const isTold = async (reason: string, words: RegExp): Promise<boolean> => {
    const stalled = conditionOf(await running.slot("primary"), "Stalled");
    return stalled?.reason === reason && words.test(String(stalled.message));
  };
  await until("the daemon takes it for none", () => isTold("ImageNotFound", /is no name of an image/));
  const mount = (source: string): string => slot(`mounts = [{ source = "${source}", target = "/x" }]`);
  const { DockerRootDir: dataRoot }: { DockerRootDir: string } = await api.info();
  for (const [source, words] of [
    [join(running.configDir, "slots"), /slots, in .* would give/],
    [dataRoot, /data would give the container this machine/],
  ] as const) {
    await writeFile(file, mount(source));
    await until(`${source} is refused\n${running.log()}`, () => isTold("StartFailed", words));
  }
  assert.deepEqual(await containers(running), []);
  await writeFile(file, mount(running.modelsDir));
  await running.state("primary", "ready", "idle");
});
