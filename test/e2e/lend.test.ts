import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { operatorPid } from "../support/published.ts";
import { until } from "../support/until.ts";

async function chat(berth: RunningBerth): Promise<readonly [status: number, reason: unknown, retryAfter: number]> {
  const response = await fetch(new URL("/v1/chat/completions", berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "one", messages: [{ role: "user", content: "hello" }], max_tokens: 4 }),
  });
  const answer: unknown = await response.json();
  const error = isRecord(answer) && isRecord(answer["error"]) ? answer["error"] : {};
  const details = isRecord(error["details"]) ? error["details"] : {};
  return [response.status, details["reason"], Number(response.headers.get("retry-after") ?? 0)];
}

/** Kills a process of the service, which starts another one. */
async function replaced(pidNow: () => Promise<number | undefined>): Promise<void> {
  const pid = await until("its process is told", pidNow);
  process.kill(pid, "SIGKILL");
  await until("there is a new process", async () => {
    const now = await pidNow();
    return now !== undefined && now !== pid;
  });
}

/** The gateway that has written its demand last. */
async function gatewayPid({ stateDir }: RunningBerth): Promise<number | undefined> {
  const directory = join(stateDir, "demand");
  // Another name means a file that is being written.
  const files = (await readdir(directory)).filter((file) => file.endsWith(".json"));
  const times = await Promise.all(files.map(async (file) => (await stat(join(directory, file))).mtimeMs));
  const last = files[times.indexOf(Math.max(...times))] ?? "";
  const demand: unknown = JSON.parse(await readFile(join(directory, last), "utf8"));
  return isRecord(demand) && typeof demand["pid"] === "number" ? demand["pid"] : undefined;
}

it("a lent group unloads its slots, refuses requests through kill -9 of operator and gateway, and serves again at its end", async () => {
  await using berth = await startBerth({
    async prepare({ configDir, modelsDir }) {
      await mkdir(join(configDir, "groups"));
      await writeFile(join(configDir, "groups/gpu.toml"), "[budget]\nslots = 1\n");
      await writeTinyModel(join(modelsDir, "model-one.gguf"));
      await writeFile(
        join(configDir, "slots/one.toml"),
        'load = "onDemand"\ngroup = "gpu"\n[model]\ndefault = "model-one"\n',
      );
    },
  });
  const env = { SVC_URL: berth.url };
  assert.equal((await chat(berth))[0], 200);
  const lent = await runBerth(["lend", "2h"], env);
  assert.match(lent.stdout, /^gpu: lent until .*; unloaded once their requests have ended: one\n$/, lent.stderr);
  await until("its slot has left", async () => (await berth.slot("one")).processes?.length === 0);
  const isRefused = async (): Promise<void> => {
    const [status, reason, seconds] = await chat(berth);
    assert.deepEqual([status, reason, seconds > 3600 && seconds <= 7200], [503, "Lent", true], `${seconds} s`);
  };
  await isRefused();
  await replaced(async () => operatorPid(berth));
  await isRefused();
  await replaced(() => gatewayPid(berth));
  await until("a new gateway serves", async () => (await fetch(new URL("/readyz", berth.url))).ok);
  await isRefused();
  const shown = await runBerth(["group", "show", "gpu"], env);
  assert.match(shown.stdout, /^state: {10}lent until /m);
  assert.equal((await berth.slot("one"))["state"], "offline");
  assert.equal((await runBerth(["lend", "--end"], env)).stdout, "gpu: no longer lent\n");
  await until("it is asked for again", async () => (await chat(berth))[0] === 200);
});
