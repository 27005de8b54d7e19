import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { isRecord } from "../../src/lib/record.ts";
import { followEvents } from "../gateway/management/event-reader.ts";
import { pidOf } from "../paths/fixture.ts";
import { startBerth } from "../support/berth.ts";
import { runBerth } from "../support/command.ts";
import { envelopeOf } from "../support/envelope.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const command = JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine]);
const manifest = `# Ours.\nengine = "custom"\ncommand = ${command}\n\n[model]\ndefault = "m1" # the first\n`;

test("a slot is loaded, unloaded, restarted, swapped, written, created and removed over the API", async () => {
  await using berth = await startBerth({
    env: { SVC_API_EXEC: "1" },
    prepare: ({ configDir }) => writeFile(join(configDir, "slots/coder.toml"), manifest),
  });
  const send = async (method: string, path: string, body?: unknown): Promise<Response> =>
    await fetch(new URL(path, berth.url), {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
  const slot = async (
    method: string,
    path: string,
    body?: unknown,
  ): Promise<[status: number, state: unknown, model: unknown]> => {
    const response = await send(method, path, body);
    const found: unknown = await response.json();
    return isRecord(found)
      ? [response.status, found["state"], found["model"]]
      : [response.status, undefined, undefined];
  };
  const file = join(berth.configDir, "slots/coder.toml");
  await berth.state("coder", "ready", "idle");
  using events = await followEvents(berth.url);
  await events.find("snapshot");

  assert.deepEqual(await slot("POST", "/api/slots/coder/unload?wait=settled"), [202, "offline", "m1"]);
  assert.deepEqual((await slot("POST", "/api/slots/coder/load?wait=ready")).slice(0, 2), [202, "ready"]);
  const pid = await pidOf(berth, "coder");
  assert.deepEqual((await slot("POST", "/api/slots/coder/restart?wait=ready")).slice(0, 2), [202, "ready"]);
  assert.notEqual(await pidOf(berth, "coder"), pid);
  await events.find("slot", (data) => isRecord(data) && data["state"] === "offline");

  assert.deepEqual(await slot("POST", "/api/slots/coder/swap?wait=ready", { model: "m2" }), [202, "ready", "m2"]);
  assert.equal(await readFile(file, "utf8"), manifest);
  assert.deepEqual(await slot("POST", "/api/slots/coder/swap?wait=ready", { reset: true }), [202, "ready", "m1"]);
  const written = await slot("POST", "/api/slots/coder/swap?wait=ready", { model: "m3", write: true });
  assert.deepEqual(written, [202, "ready", "m3"]);
  assert.equal(await readFile(file, "utf8"), manifest.replace('"m1"', '"m3"'));
  const swapped = await runBerth(["slot", "swap", "coder", "m4", "--write", "--wait"], {
    ...berth.env,
    SVC_URL: berth.url,
  });
  assert.equal(swapped.code, 0, swapped.stderr);
  assert.equal(await readFile(file, "utf8"), manifest.replace('"m1"', '"m4"'));

  const spec = { engine: "custom", command: JSON.parse(command), model: { default: "n1" } };
  assert.deepEqual(await slot("POST", "/api/slots?wait=ready", { name: "extra", ...spec }), [201, "ready", "n1"]);
  const disabled = await send("PUT", "/api/slots/extra?wait=settled", { ...spec, enabled: false });
  assert.equal(disabled.status, 202);
  await berth.state("extra", "offline");
  const refused = await send("POST", "/api/slots/extra/load");
  assert.equal(refused.status, 409);
  assert.equal((await envelopeOf(refused)).error.code, "slot.disabled");
  // The last two there are, one right after the other: what was asked for is no directory that somebody emptied.
  for (const name of ["extra", "coder"]) assert.equal((await send("DELETE", `/api/slots/${name}`)).status, 202);
  const seen = new Set<number>();
  for (const name of ["extra", "coder"])
    await until(`${name} is gone`, async () => {
      const { status } = await send("GET", `/api/slots/${name}`);
      seen.add(status);
      return status === 404;
    });
  assert.ok(!seen.has(503), "a slot that is gone is no slot whose status is still to come");
  const health: unknown = await (await send("GET", "/api/health/system")).json();
  assert.equal(isRecord(health) && health["status"], "ok");
  await until("no request to remove is left", async () => {
    const left = await readdir(join(berth.stateDir, "requests/removals"));
    return left.length === 0;
  });
  await events.find("slot", (data) => isRecord(data) && data["name"] === "extra" && data["removed"] === true);
  assert.equal((await send("DELETE", "/api/slots/primary")).status, 409);
});
