import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import pino from "pino";
import { loadConfig } from "../../src/api/config.ts";
import type { HardwareFacts } from "../../src/api/hardware.ts";
import { runOperator } from "../../src/operator/main.ts";
import { startFileServer } from "../doubles/file-server.ts";
import { pcFacts } from "../hardware/tree.ts";
import { freePorts } from "../support/ports.ts";
import { readPublished } from "../support/published.ts";
import { headerOf, writeShape } from "../support/shaped-model.ts";
import { shapes } from "../support/shapes.ts";
import { tempDir } from "../support/temp-dir.ts";
import { card } from "./machine.ts";

const withCard: HardwareFacts = { ...pcFacts, gpus: [card()] };

it("berth operator --paused asks no server, starts no program and writes no figure, and its plan says what it would learn", async () => {
  await using directory = await tempDir();
  const [configDir, modelsDir, stateDir] = ["config", "models", "state"].map((name) => join(directory.path, name));
  assert.ok(configDir !== undefined && modelsDir !== undefined && stateDir !== undefined);
  for (const each of [join(configDir, "slots"), join(configDir, "models"), modelsDir])
    await mkdir(each, { recursive: true });
  await using server = await startFileServer({ "/big.gguf": { body: headerOf(shapes.dense).header, etag: '"1"' } });
  await writeShape(join(modelsDir, "dense.gguf"), shapes.dense);
  const program = join(directory.path, "llama-server");
  await writeFile(program, "");
  await writeFile(join(configDir, "models/big.toml"), `source = "${server.url}/big.gguf"\n`);
  await writeFile(join(configDir, "slots/remote.toml"), 'model.default = "big"\n');
  await writeFile(
    join(configDir, "slots/local.toml"),
    'backend = "cuda"\nmodel.default = "dense"\nmodel.context_size = 4096\n',
  );
  const { first, last } = await freePorts(4);
  const { config, problems } = loadConfig(
    {
      SVC_CONFIG_DIR: configDir,
      SVC_MODELS_DIR: modelsDir,
      SVC_STATE_DIR: stateDir,
      SVC_RUNTIME: "process",
      SVC_OPERATOR_PORT: "0",
      SVC_SLOT_PORTS: `${first}-${last}`,
    },
    {},
    { isRoot: false, home: directory.path, xdgConfigHome: undefined, xdgStateHome: undefined },
  );
  assert.ok(config !== undefined, JSON.stringify(problems));
  const begun: string[] = [];
  let plans: readonly Awaited<ReturnType<typeof readPublished>>[];
  const before = (await readdir(modelsDir)).filter((name) => !name.startsWith("."));
  {
    await using _operator = await runOperator(config, {
      log: pino({ level: "silent" }),
      host: { llamaServer: program, embedded: undefined },
      probe: async (asking) => {
        if (asking !== undefined) begun.push("nvidia-smi for the devices");
        return withCard;
      },
      holdings: async () => {
        begun.push("nvidia-smi for the processes");
        return [];
      },
      print: async () => {
        begun.push("llama-fit-params");
        return "0000:01:00.0 172 48 65\nHost 33 0 18\n";
      },
      images: {},
      catalog: async () => [],
      env: {},
      isPaused: true,
      signal: new AbortController().signal,
      onActing: () => undefined,
      onLost: () => assert.fail("another operator has the state directory"),
    });
    plans = await Promise.all(["remote", "local"].map((name) => readPublished(stateDir, name)));
  }
  assert.deepEqual([begun, server.asked], [[], []]);
  assert.equal(existsSync(join(stateDir, "fit.json")), false);
  assert.deepEqual(
    (await readdir(modelsDir)).filter((name) => !name.startsWith(".")),
    before,
  );
  assert.deepEqual(
    plans.map((published) => published?.plan.steps.map((step) => step.do)),
    [
      ["readHeader", "fetch"],
      ["measure", "lease", "start"],
    ],
  );
});
