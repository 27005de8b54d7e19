import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import Dockerode from "dockerode";
import { startBerth } from "../support/berth.ts";
import { freePorts } from "../support/ports.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";
import { testSocket } from "./docker-site.ts";
import { engineImage } from "./images.ts";

const api = new Dockerode({ socketPath: testSocket() });
const names = ["slot-0", "slot-1", "slot-2", "slot-3"] as const;
const text = `engine = "custom"\nimage = "${engineImage}"\n[model]\ndefault = "double"\n`;

test("a container that the kernel kills is replaced, and a killed operator's containers are all adopted while they serve", async () => {
  const { first, last } = await freePorts(names.length + 4);
  await using berth = await startBerth({
    env: { SVC_RUNTIME: "docker", DOCKER_HOST: `unix://${testSocket()}`, SVC_SLOT_PORTS: `${first}-${last}` },
    prepare: async ({ configDir }) => {
      for (const name of names) await writeFile(join(configDir, `slots/${name}.toml`), text);
    },
  });
  const status = async (name: string) => (await readPublished(berth.stateDir, name))?.status;
  const containerOf = async (name: string): Promise<string | undefined> =>
    (await status(name))?.processes[0]?.containerId;
  const operator = async (): Promise<number> =>
    JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8")).pid;
  for (const name of names) await until(`${name} is ready`, async () => (await status(name))?.state === "ready");

  const victim = (await containerOf("slot-0")) ?? assert.fail("slot-0 has no container");
  process.kill((await api.getContainer(victim).inspect()).State.Pid, "SIGKILL");
  const again = await until("another container is ready", async () => {
    const now = await status("slot-0");
    return now?.state === "ready" && now.processes[0]?.containerId !== victim && now;
  });
  assert.deepEqual([again.lastError?.reason, again.restarts], ["Signalled", 1]);
  assert.match(again.lastError?.message ?? "", /SIGKILL/);

  const known = await Promise.all(names.map(containerOf));
  const failures: string[] = [];
  let isOver = false;
  using stack = new DisposableStack();
  // Whatever fails before its end, it must not hide that.
  stack.defer(() => void (isOver = true));
  const load = (async () => {
    for (let turn = 0; !isOver; turn++) {
      const body = JSON.stringify({ model: names[turn % names.length], messages: [{ role: "user", content: "hi" }] });
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${berth.url}/v1/chat/completions`, { method: "POST", headers, body });
      const answer = await response.text();
      if (response.status !== 200) failures.push(`${response.status} ${answer}`);
    }
  })().catch((error: unknown) => failures.push(String(error)));
  const pid = await operator();
  process.kill(pid, "SIGKILL");
  await until("another operator writes", async () => (await operator()) !== pid);
  await until("it is ready", async () => (await fetch(`${berth.operatorUrl}/readyz`)).ok);
  isOver = true;
  await load;
  assert.deepEqual(failures, []);
  assert.deepEqual(await Promise.all(names.map(containerOf)), known);
  for (const [index, name] of names.entries()) {
    const { state, restarts } = (await status(name)) ?? {};
    assert.deepEqual([state, restarts], ["ready", index === 0 ? 1 : 0], name);
  }
});
