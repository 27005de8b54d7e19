import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import type { z } from "zod";
import { recordSchema } from "../../src/api/process-record.ts";
import { chat, pidOf, writeSlot } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { operatorPid, readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const command = JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine]);
const llama = `engine = "llama"\ncommand = ${command}\n[model]\ndefault = "any"\n`;
/** One engine takes its key as llama-server does, one by a variable of the manifest's. */
const manifests = {
  coder: llama,
  own: `engine = "custom"\ncommand = ${command}\n[env]\nDOUBLE_KEY = "$(BEARER)"\n`,
  fixed: `${llama}[env]\nLLAMA_API_KEY = "chosen-by-a-person,another"\n`,
  open: `${llama}[env]\nLLAMA_API_KEY = ""\n`,
} as const;

async function recordOf({ stateDir }: RunningBerth, slot: string): Promise<z.infer<typeof recordSchema>> {
  const text = await readFile(join(stateDir, "processes", `${slot}.main.json`), "utf8");
  return recordSchema.parse(JSON.parse(text));
}

/** Status of a chat with the engine itself. */
async function direct(slot: Record<string, unknown>, key?: string): Promise<number> {
  const url = `http://127.0.0.1:${String(slot["port"])}`;
  return (await chat({ url }, String(slot["name"]), key))[0];
}

it("an engine's bearer is required on its own port, known to the gateway alone, kept by the next operator and replaced at a restart", async () => {
  await using berth = await startBerth({
    env: { SVC_LOG_LEVEL: "trace" },
    prepare: async (directories) => {
      for (const [name, text] of Object.entries(manifests)) await writeSlot(directories, name, text);
    },
  });
  for (const name of ["coder", "own"]) {
    const slot = await berth.state(name, "ready", "idle");
    const { bearer = "", pid } = await recordOf(berth, name);
    assert.match(bearer, /^[\w-]{43}$/);
    assert.deepEqual([await direct(slot), await direct(slot, "guessed")], [401, 401]);
    assert.deepEqual([(await chat(berth, name))[0], (await chat(berth, name, "a client's own"))[0]], [200, 200]);
    assert.equal((await readPublished(berth.stateDir, name))?.bearerList?.[0]?.bearer, bearer);
    assert.equal((await stat(join(berth.stateDir, "slots", `${name}.json`))).mode & 0o007, 0);
    assert.equal((await stat(join(berth.stateDir, "processes", `${name}.main.json`))).mode & 0o777, 0o600);
    assert.ok((await readFile(`/proc/${pid}/environ`, "utf8")).includes(`=${bearer}\0`));
    const told = [berth.log(), await readFile(`/proc/${pid}/cmdline`, "utf8")];
    const slots = ["", `/${name}`, `/${name}/plan`, `/${name}/logs`].map((path) => `/api/slots${path}`);
    for (const path of [...slots, "/api/status", "/api/health/system", "/metrics", "/v1/models"])
      told.push(await (await fetch(new URL(path, berth.url))).text());
    told.push(await (await fetch(new URL("/metrics", berth.operatorUrl))).text());
    for (const text of told) assert.equal(text.includes(bearer), false, text.slice(0, 300));
  }
  const first = (await recordOf(berth, "coder")).bearer;
  assert.notEqual(first, (await recordOf(berth, "own")).bearer);
  // The manifest's own value where it has one, and none where that value is empty.
  await berth.state("fixed", "ready", "idle");
  assert.equal((await readPublished(berth.stateDir, "fixed"))?.bearerList?.[0]?.bearer, "chosen-by-a-person");
  const open = await berth.state("open", "ready", "idle");
  assert.deepEqual([(await chat(berth, "open"))[0], await direct(open)], [200, 200]);
  assert.equal((await readPublished(berth.stateDir, "open"))?.bearerList, undefined);

  const pid = await pidOf(berth, "coder");
  const operator = operatorPid(berth);
  process.kill(operator, "SIGKILL");
  await until("another operator runs", () => operatorPid(berth) !== operator);
  // The new operator has adopted the engine once it acts on an edit.
  await writeSlot(berth, "coder", `aliases = ["gpt"]\n${manifests.coder}`);
  await until("it acts", async () => JSON.stringify((await berth.slot("coder"))["aliases"]).includes("gpt"));
  assert.deepEqual([await pidOf(berth, "coder"), (await recordOf(berth, "coder")).bearer], [pid, first]);
  assert.equal((await chat(berth, "coder"))[0], 200);
  await fetch(new URL("/api/slots/coder/restart?wait=ready", berth.url), { method: "POST" });
  const after = await until("the gateway has the other engine", async () => {
    const slot = await berth.state("coder", "ready", "idle");
    return (await pidOf(berth, "coder")) !== pid && slot;
  });
  const { bearer: second } = await recordOf(berth, "coder");
  assert.deepEqual(
    [(await chat(berth, "coder"))[0], await direct(after, second), await direct(after, first)],
    [200, 200, 401],
  );
});
