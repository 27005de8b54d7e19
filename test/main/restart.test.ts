import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { operatorRunSchema } from "../../src/api/operator-run.ts";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { childOf } from "../support/child-of.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const coder = `engine = "custom"
command = [${JSON.stringify(process.execPath)}, "--disable-warning=ExperimentalWarning", ${JSON.stringify(engine)}]
`;

async function withSlot({ configDir }: { configDir: string }): Promise<void> {
  await writeFile(join(configDir, "slots/coder.toml"), coder);
}

function operatorPid({ stateDir }: RunningBerth): number {
  return publishedOperatorSchema.parse(JSON.parse(readFileSync(join(stateDir, "operator.json"), "utf8"))).pid;
}

async function answer({ url }: RunningBerth): Promise<number> {
  const body = JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hello" }] });
  const headers = { "content-type": "application/json" };
  return (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).status;
}

function pidOf(slot: Record<string, unknown>): unknown {
  const { processes } = slot;
  const first: unknown = Array.isArray(processes) ? processes[0] : undefined;
  return typeof first === "object" && first !== null && "pid" in first ? first.pid : undefined;
}

describe("berth up, one part of which was killed and cannot be started again", () => {
  it("serves on while berth.toml is invalid, and has its operator again once the file is mended", async () => {
    await using berth = await startBerth({ prepare: withSlot });
    const before = pidOf(await berth.state("coder", "ready", "idle"));
    const settings = join(berth.configDir, "berth.toml");
    await writeFile(settings, "port = 99999999\n");
    const killed = operatorPid(berth);
    process.kill(killed, "SIGKILL");
    await until("it was tried twice", () => /before it was ready; trying again in 1 s/.test(berth.log()));
    assert.match(berth.log(), /config\.invalid: berth\.toml port must be/);
    assert.equal(await answer(berth), 200);
    assert.equal(berth.child.exitCode, null);
    // As if it had ended while it read a model's header.
    const model = join(berth.modelsDir, "evil.gguf");
    await writeTinyModel(model);
    const { ino, size, mtimeMs } = await stat(model);
    const run = operatorRunSchema.parse(JSON.parse(await readFile(join(berth.stateDir, "run.json"), "utf8")));
    assert.equal(run.isRunning, true);
    const reading = { path: model, stamp: `${ino}:${size}:${mtimeMs}` };
    await writeFile(join(berth.stateDir, "run.json"), JSON.stringify({ ...run, reading }));
    await rm(settings);
    await until("another operator runs", () => operatorPid(berth) !== killed);
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
    assert.equal(pidOf(await berth.state("coder", "ready", "idle")), before);
    assert.equal(await berth.stop("SIGINT"), 0);
  });

  it("keeps its engines while another program has the gateway's port, and serves once it has gone", async () => {
    await using berth = await startBerth({ prepare: withSlot });
    const before = pidOf(await berth.state("coder", "ready", "idle"));
    const operator = operatorPid(berth);
    const port = Number(new URL(berth.url).port);
    const gateway = childOf(berth.child, "serve");
    // It starts no other gateway before the stranger listens.
    berth.child.kill("SIGSTOP");
    process.kill(gateway, "SIGKILL");
    const stranger = createServer((socket) => socket.destroy());
    await until("the stranger has the port", async () => (await listen(stranger, port)) === port);
    berth.child.kill("SIGCONT");
    await until("it was tried twice", () =>
      /gateway ended .* before it was ready; trying again in 1 s/.test(berth.log()),
    );
    assert.match(berth.log(), new RegExp(`port ${port} is taken`));
    assert.equal(operatorPid(berth), operator);
    stranger.close();
    assert.equal(pidOf(await berth.state("coder", "ready", "idle")), before);
    assert.equal(await answer(berth), 200);
    assert.equal(await berth.stop("SIGINT"), 0);
  });
});
