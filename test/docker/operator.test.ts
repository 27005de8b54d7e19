import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import Dockerode from "dockerode";
import { isRecord } from "../../src/lib/record.ts";
import { carriers } from "../runtimes/process/site.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage } from "./images.ts";
import { pause } from "./patient.ts";
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

async function chat(running: RunningBerth): Promise<string> {
  const response = await fetch(`${running.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "primary", messages: [{ role: "user", content: "hi" }] }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  return await response.text();
}

it(
  "serves a container behind the gateway, and leaves no container behind when Berth stops",
  { timeout: 300_000 },
  async () => {
    const running = await berth({ primary: slot() });
    try {
      await running.state("primary", "ready", "idle");
      assert.match(await chat(running), /token0/);
      const [container, ...more] = await containers(running);
      assert.ok(container !== undefined && more.length === 0);
      const status = await running.slot("primary");
      assert.equal(status["runtime"], "docker");
      await running.stop("SIGINT");
      const filters = { id: [container.Id] };
      assert.deepEqual(await api.listContainers({ all: true, filters }), []);
    } finally {
      await running[Symbol.asyncDispose]();
    }
  },
);

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
  assert.match(await chat(running), /token0/);
  assert.equal((await containers(running)).length, 1);
  await writeFile(file, asProcess);
  await until("it is a process", async () => {
    const status = await running.slot("primary");
    return status["runtime"] === "process" && ["ready", "idle"].includes(String(status["state"]));
  });
  isDone = true;
  await watching;
  assert.match(await chat(running), /token0/);
  assert.deepEqual(await containers(running), []);
  // None for a moment, which may be over between two looks.
  assert.deepEqual(seen.union(new Set([0])), new Set([0, 1]), "never two");
});

it("repairs changes of other clients without counting a restart", { timeout: 300_000 }, async () => {
  await using running = await berth({ primary: slot() });
  await running.state("primary", "ready", "idle");
  const [container] = await containers(running);
  assert.ok(container !== undefined);
  await pause(api.getContainer(container.Id));
  await api.getContainer(container.Id).rename({ name: `strange-${container.Id.slice(0, 8)}` });
  const status = await until("both are mended and told of", async () => {
    const { State: state, Name: name } = await api.getContainer(container.Id).inspect();
    const found = await running.slot("primary");
    return !state.Paused && name === container.Names[0] && found["last_error"] !== null && found;
  });
  assert.deepEqual([status["restarts"], status["image"]], [0, engineImage]);
  await until("the log tells of it", async () => /→ repair main/.test(running.log()));
  assert.match(await chat(running), /token0/);
});

it(
  "starts a container again whose health fails, with its last output in the message",
  { timeout: 300_000 },
  async () => {
    await using running = await berth({ primary: slot() });
    const { port } = await running.state("primary", "ready", "idle");
    const [ill] = await containers(running);
    await fetch(`http://127.0.0.1:${String(port)}/double/fall-ill`, { method: "POST", body: "the GPU is gone" });
    const status = await until("another one is ready", async () => {
      const [container] = await containers(running);
      const found = await running.slot("primary");
      return container?.Id !== ill?.Id && ["ready", "idle"].includes(String(found["state"])) && found;
    });
    const { last_error: error, restarts } = status;
    assert.ok(isRecord(error));
    assert.equal(error["reason"], "Unhealthy");
    assert.match(String(error["message"]), /^3 probes failed: \/health answered 500: .*the GPU is gone/);
    assert.equal(restarts, 1);
  },
);

it("reports an invalid image, and settings that a container may not have", { timeout: 300_000 }, async () => {
  await using running = await berth({ primary: 'engine = "custom"\nimage = "Berth/engine:1"\n' });
  const file = join(running.configDir, "slots/primary.toml");
  const told = async (what: string, text: string | undefined, reason: string, words: RegExp): Promise<void> => {
    if (text !== undefined) await writeFile(file, text);
    let status: Record<string, unknown> = {};
    const isTold = async (): Promise<boolean> => {
      status = await running.slot("primary");
      const { conditions } = status;
      if (!Array.isArray(conditions)) return false;
      const stalled: unknown = conditions.find(({ type }: { type?: unknown }) => type === "Stalled");
      return (
        stalled !== undefined &&
        JSON.stringify(stalled).includes(`"reason":"${reason}"`) &&
        words.test(JSON.stringify(stalled))
      );
    };
    await until(what, isTold).catch((error: unknown) => {
      throw new Error(`${what}: ${JSON.stringify(status)}\n${running.log()}`, { cause: error });
    });
  };
  await told("the daemon takes it for none", undefined, "ImageNotFound", /is no name of an image/);
  await told("the schema takes it for none", slot().replace(engineImage, "Not A Name"), "InvalidSpec", /no name of an/);
  const mount = (source: string): string => slot(`mounts = [{ source = "${source}", target = "/x" }]`);
  await told("a path with ..", mount("/usr/../etc"), "StartFailed", /without \\"\.\./);
  await told("the configuration", mount(join(running.configDir, "slots")), "StartFailed", /slots, in .* would give/);
  const { DockerRootDir: dataRoot }: { DockerRootDir: string } = await api.info();
  await told("the daemon's own files", mount(dataRoot), "StartFailed", /data would give the container this machine/);
  assert.deepEqual(await containers(running), []);
  await writeFile(file, slot(`mounts = [{ source = "${running.modelsDir}", target = "/x" }]`));
  await running.state("primary", "ready", "idle");
});
