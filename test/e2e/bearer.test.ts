import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { recordSchema } from "../../src/api/process-record.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const command = JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine]);
const model = '[model]\ndefault = "any"\n';
/** One engine takes its key as llama-server does, one by a variable of the manifest's. */
const manifests = {
  coder: `engine = "llama"\ncommand = ${command}\n${model}`,
  own: `engine = "custom"\ncommand = ${command}\n[env]\nDOUBLE_KEY = "$(BEARER)"\n`,
  fixed: `engine = "llama"\ncommand = ${command}\n${model}[env]\nLLAMA_API_KEY = "chosen-by-a-person,another"\n`,
  open: `engine = "llama"\ncommand = ${command}\n${model}[env]\nLLAMA_API_KEY = ""\n`,
} as const;

async function started(...names: (keyof typeof manifests)[]): Promise<RunningBerth> {
  return await startBerth({
    env: { SVC_LOG_LEVEL: "trace" },
    prepare: async ({ configDir }) => {
      for (const name of names) await writeFile(join(configDir, `slots/${name}.toml`), manifests[name]);
    },
  });
}

async function chat(url: string, model: string, key?: string): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] }),
  });
  await response.text();
  return response.status;
}

async function bearerOf(berth: RunningBerth, slot: string): Promise<string> {
  const text = await readFile(join(berth.stateDir, "processes", `${slot}.main.json`), "utf8");
  return recordSchema.parse(JSON.parse(text)).bearer ?? "";
}

const endpoint = (slot: Record<string, unknown>): string => `http://127.0.0.1:${String(slot["port"])}`;

describe("an engine's bearer", () => {
  it("is required on the engine's own port, and known to the gateway alone", async () => {
    await using berth = await started("coder", "own", "fixed", "open");
    for (const name of ["coder", "own"] as const) {
      const slot = await berth.state(name, "ready", "idle");
      const bearer = await bearerOf(berth, name);
      assert.match(bearer, /^[\w-]{43}$/);
      assert.equal(await chat(endpoint(slot), name), 401);
      assert.equal(await chat(endpoint(slot), name, "guessed"), 401);
      assert.equal(await chat(berth.url, name), 200);
      assert.equal(await chat(berth.url, name, "a client's own"), 200);
      assert.equal((await readPublished(berth.stateDir, name))?.bearers?.main, bearer);
      assert.equal((await stat(join(berth.stateDir, "slots", `${name}.json`))).mode & 0o007, 0);
      assert.equal((await stat(join(berth.stateDir, "processes", `${name}.main.json`))).mode & 0o777, 0o600);
      const pid = recordSchema.parse(
        JSON.parse(await readFile(join(berth.stateDir, "processes", `${name}.main.json`), "utf8")),
      ).pid;
      assert.ok((await readFile(`/proc/${pid}/environ`, "utf8")).includes(`=${bearer}\0`));
      const told = [berth.log(), await readFile(`/proc/${pid}/cmdline`, "utf8")];
      for (const path of [
        "/api/slots",
        `/api/slots/${name}`,
        `/api/slots/${name}/plan`,
        `/api/slots/${name}/logs`,
        "/api/status",
        "/api/health/system",
        "/metrics",
        "/v1/models",
      ]) {
        told.push(await (await fetch(new URL(path, berth.url))).text());
      }
      told.push(await (await fetch(new URL("/metrics", berth.operatorUrl))).text());
      for (const text of told) assert.equal(text.includes(bearer), false, text.slice(0, 300));
    }
    assert.notEqual(await bearerOf(berth, "coder"), await bearerOf(berth, "own"));
    // The manifest's own value where it has one, and none where that value is empty.
    await berth.state("fixed", "ready", "idle");
    assert.equal((await readPublished(berth.stateDir, "fixed"))?.bearers?.main, "chosen-by-a-person");
    const open = await berth.state("open", "ready", "idle");
    assert.deepEqual([await chat(berth.url, "open"), await chat(endpoint(open), "open")], [200, 200]);
    assert.equal((await readPublished(berth.stateDir, "open"))?.bearers, undefined);
  });

  it("is kept by the next operator, and replaced at a restart of the engine", async () => {
    await using berth = await started("coder");
    const before = await berth.state("coder", "ready", "idle");
    const first = await bearerOf(berth, "coder");
    const operator = JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8"));
    process.kill(operator.pid, "SIGKILL");
    await until("another operator has adopted it", async () => {
      const next = JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8"));
      return next.pid !== operator.pid && next.isSettled === true;
    });
    assert.deepEqual((await berth.slot("coder"))["processes"], before["processes"]);
    assert.deepEqual([await bearerOf(berth, "coder"), await chat(berth.url, "coder")], [first, 200]);
    await fetch(new URL("/api/slots/coder/restart", berth.url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    });
    const second = await until("another engine has another bearer", async () => {
      const bearer = await bearerOf(berth, "coder").catch(() => "");
      return bearer !== "" && bearer !== first && bearer;
    });
    // The record is there before the gateway has heard of the restart.
    const after = await until("the gateway has the other engine", async () => {
      const now = await berth.state("coder", "ready", "idle");
      return !isDeepStrictEqual(now["processes"], before["processes"]) && now;
    });
    assert.deepEqual([await chat(berth.url, "coder"), await chat(endpoint(after), "coder", second)], [200, 200]);
    assert.equal(await chat(endpoint(after), "coder", first), 401);
  });
});
