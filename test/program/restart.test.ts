import assert from "node:assert/strict";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { operatorRunSchema } from "../../src/api/operator-run.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { childOf } from "../support/child-of.ts";
import { until } from "../support/until.ts";
import { operatorPid } from "../support/published.ts";
import { chat, coder, engineOf, startUp } from "./coder.ts";

it("an operator that was killed is started again once it can be, adopts its engine, and names the file that it read", async () => {
  await using berth = await startUp();
  const before = await engineOf(berth);
  const never = join(berth.configDir, "slots/never.toml");
  await writeFile(never, "enabled = true\n[model\n");
  const isBrokenAt = async (line: number): Promise<boolean> => {
    const slot = await (await fetch(`${berth.url}/api/slots/never`)).text();
    return slot.includes('"state":"error"') && slot.includes(`never.toml:${line}:7: `);
  };
  await until("the slot that was never valid says why", () => isBrokenAt(2));
  const settings = join(berth.configDir, "berth.toml");
  await writeFile(settings, "port = 99999999\n");
  const killed = operatorPid(berth);
  process.kill(killed, "SIGKILL");
  await until("it was tried", () => /before it was ready; trying again in 0\.5 s/.test(berth.log()));
  assert.match(berth.log(), /config\.invalid: berth\.toml port must be/);
  assert.equal((await chat(berth)).status, 200);
  // As if it had ended while it read a model's header.
  const model = join(berth.modelsDir, "evil.gguf");
  await writeTinyModel(model);
  const { ino, size, mtimeMs } = await stat(model);
  const run = operatorRunSchema.parse(JSON.parse(await readFile(join(berth.stateDir, "run.json"), "utf8")));
  assert.equal(run.isRunning, true);
  const reading = { path: model, stamp: `${ino}:${size}:${mtimeMs}` };
  await writeFile(join(berth.stateDir, "run.json"), JSON.stringify({ ...run, reading }));
  await writeFile(never, "\nenabled = true\n[model\n");
  await rm(settings);
  await until("another operator runs", () => operatorPid(berth) !== killed);
  await until("the slot that was never valid still says why", () => isBrokenAt(3));
  const text = async (path: string): Promise<string> => await (await fetch(`${berth.url}${path}`)).text();
  await until("its end is known, and the file", async () => {
    const health = await text("/api/health/system");
    return health.includes('"unexpected_ends":1') && health.includes('"reasons":["ModelSetAside"]');
  });
  await until("the model says why", async () =>
    /evil\.gguf cannot be read: an operator has ended while it read it; it is read once more, in about a minute/.test(
      await text("/api/models/evil"),
    ),
  );
  assert.deepEqual(await engineOf(berth), before);
  assert.equal(await berth.stop("SIGINT"), 0);
});

it("a gateway that was killed is started again, and one that was asked to stop has a successor meanwhile; SIGTERM ends all", async () => {
  await using berth = await startUp({ manifest: coder("", "--token-ms", "300") });
  const { pid } = await engineOf(berth);
  const first = childOf(berth.child, "serve");
  process.kill(first, "SIGKILL");
  await until("that is told", () => /gateway ended \(SIGKILL\); starting it again/.test(berth.log()));
  await until("another one answers", async () => (await chat(berth)).ok);
  const second = childOf(berth.child, "serve");
  const open = await chat(berth, { stream: true });
  process.kill(second, "SIGTERM");
  await until("that is told", () => /gateway was stopped by another process; its successor starts/.test(berth.log()));
  assert.match(await open.text(), /\[DONE\]/);
  await until("the next one answers", async () => await berth.slot("coder"));
  await until("the first one is gone", () => startTimeOf(second) === undefined);
  assert.equal((await engineOf(berth)).pid, pid);
  assert.equal(await berth.stop("SIGTERM"), 0, berth.log());
  assert.equal(startTimeOf(pid), undefined);
});
