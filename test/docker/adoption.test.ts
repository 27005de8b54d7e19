import assert from "node:assert/strict";
import { join } from "node:path";
import { writeFile } from "node:fs/promises";
import { test } from "node:test";
import Dockerode from "dockerode";
import { chat } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { operatorPid, readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage } from "./images.ts";

const api = new Dockerode({ socketPath: testSocket() });
const names = ["one", "two"] as const;
const text = `engine = "custom"\nimage = "${engineImage}"\n[model]\ndefault = "double"\n`;

test("a container that the kernel kills is replaced, and a killed operator's containers are all adopted while they serve", async () => {
  await using berth = await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${testSocket()}` },
    prepare: async ({ configDir }) => {
      for (const name of names) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
  const status = async (name: string) => (await readPublished(berth.stateDir, name))?.status;
  const containerOf = async (name: string): Promise<string | undefined> =>
    (await status(name))?.processes[0]?.containerId;
  for (const name of names) await until(`${name} is ready`, async () => (await status(name))?.state === "ready");

  const victim = (await containerOf("one")) ?? assert.fail("it has no container");
  process.kill((await api.getContainer(victim).inspect()).State.Pid, "SIGKILL");
  const again = await until("another container is ready", async () => {
    const now = await status("one");
    return now?.state === "ready" && now.processes[0]?.containerId !== victim && now;
  });
  assert.deepEqual([again.lastError?.reason, again.restarts], ["Signalled", 1]);

  const known = await Promise.all(names.map(containerOf));
  const answers: unknown[] = [];
  let isOver = false;
  const load = (async () => {
    for (let turn = 0; !isOver; turn++) answers.push(await chat(berth, names[turn % 2] ?? "one").catch(String));
  })();
  try {
    const pid = operatorPid(berth);
    process.kill(pid, "SIGKILL");
    await until("another operator writes", () => operatorPid(berth) !== pid);
    await until("it is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
  } finally {
    isOver = true;
    await load;
  }
  assert.deepEqual(
    answers.filter((answer) => !Array.isArray(answer) || answer[0] !== 200),
    [],
  );
  assert.deepEqual(await Promise.all(names.map(containerOf)), known);
  assert.deepEqual(await Promise.all(names.map(async (name) => (await status(name))?.restarts)), [1, 0]);
});
