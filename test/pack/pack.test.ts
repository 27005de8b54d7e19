import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startFileServer } from "../doubles/file-server.ts";
import { startBerth } from "../support/berth.ts";
import { berthProcess } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const engine = join(root, "test/doubles/engine.ts");
const quiet = ["--no-fund", "--no-audit", "--loglevel=error", "--prefer-offline"];

/** Packs what is here, and installs the tarball globally below a directory of its own. Returns the command. */
async function installed(directory: string): Promise<string> {
  await run("npm", ["pack", "--ignore-scripts=false", "--pack-destination", directory, ...quiet], { cwd: root });
  const [tarball = ""] = (await readdir(directory)).filter((name) => name.endsWith(".tgz"));
  const empty = join(directory, "empty");
  await mkdir(empty);
  const prefix = join(directory, "prefix");
  await run("npm", ["install", "--global", "--prefix", prefix, ...quiet, join(directory, tarball)], { cwd: empty });
  return join(prefix, "bin/berth");
}

test("the package, installed where nothing else is", { timeout: 600_000 }, async (t) => {
  await using directory = await tempDir();
  const berth = await installed(directory.path);

  await t.test("carries no embedded engine", async () => {
    const files = await readdir(join(directory.path, "prefix/lib/node_modules"), { recursive: true });
    assert.ok(files.length > 100);
    assert.deepEqual(
      files.filter((file) => file.includes("node-llama-cpp")),
      [],
    );
  });

  await t.test("prints its version", async () => {
    assert.deepEqual(await berthProcess(["--version"], {}, { program: berth }), {
      code: 0,
      stdout: "0.1.0-alpha.0\n",
      stderr: "",
    });
  });

  await t.test("checks a configuration", async () => {
    const config = join(directory.path, "config");
    await mkdir(join(config, "slots"), { recursive: true });
    await writeFile(join(config, "slots/primary.toml"), 'engin = "llama"\n[model]\ndefault = "tiny"\n');
    assert.deepEqual(await berthProcess(["config", "validate", config], {}, { program: berth }), {
      code: 1,
      stdout: `${config}/slots/primary.toml:1:1: engin: unknown key; did you mean engine?\n`,
      stderr: "",
    });
    await writeFile(join(config, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
    assert.equal(
      (await berthProcess(["config", "validate", config], {}, { program: berth })).stdout,
      `${config}: valid\n`,
    );
  });

  await t.test("serves a person's own command, and says how llama gets its engine", async () => {
    await using running = await startBerth({
      program: berth,
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
        await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
        const command = [process.execPath, "--disable-warning=ExperimentalWarning", engine];
        await writeFile(
          join(configDir, "slots/coder.toml"),
          `engine = "custom"\ncommand = ${JSON.stringify(command)}\n`,
        );
      },
    });
    await running.state("coder", "ready", "idle");
    const env = { SVC_URL: running.url };
    assert.deepEqual(await berthProcess(["chat", "coder", "hi"], env, { program: berth }), {
      code: 0,
      stdout: "token0 token1 token2 token3 token4 token5 token6 token7 \n",
      stderr: "",
    });
    const message =
      "there is no llama-server on PATH and the embedded engine is not installed: run `berth engine install embedded`";
    await until("primary says so", () => running.log().includes(`primary: error: ${message}\n`));
    assert.deepEqual(await berthProcess(["chat", "primary", "hi"], env, { program: berth }), {
      code: 1,
      stdout: "",
      stderr: `slot.failed: slot primary has failed: its engine is not installed\nsee \`berth slot show primary\` for the cause\n`,
    });
    assert.equal(await running.stop("SIGINT"), 0);
  });

  await t.test("has the threads that pulls and writes of manifests need", async () => {
    const body = randomBytes(300_000);
    await using server = await startFileServer({ "/acme/m/resolve/main/m.bin": { body, etag: '"1"' } });
    await using running = await startBerth({
      program: berth,
      env: { SVC_DISK_RESERVE: "0", HF_ENDPOINT: server.url },
      prepare: async ({ modelsDir }) => await writeFile(join(modelsDir, "kokoro.onnx"), "x"),
    });
    const env = { SVC_URL: running.url };
    const pulled = await berthProcess(["model", "pull", "hf://acme/m/m.bin"], env, { program: berth });
    assert.deepEqual([pulled.code, pulled.stdout], [0, "m.bin: pulled, 293.0 KiB\n"], pulled.stderr);
    const scanned = await berthProcess(["model", "scan", "--write"], env, { program: berth });
    assert.match(scanned.stdout, /^kokoro +declared /m, scanned.stderr);
    assert.equal(await running.stop("SIGINT"), 0);
  });

  await t.test("installs the embedded engine into the state directory, and serves with it", async () => {
    const state = join(directory.path, "state");
    const { code, stdout } = await berthProcess(
      ["engine", "install", "embedded"],
      // npm needs its settings: the registry, certificates.
      { ...process.env, SVC_STATE_DIR: state, SVC_CONFIG_DIR: join(directory.path, "config") },
      { program: berth },
    );
    assert.equal(code, 0, stdout);
    assert.match(
      stdout,
      /^installing the embedded engine \(node-llama-cpp [\d.]+, CPU build, about 85 MB\) into \S+\/state\/engines\/embedded\nthe embedded engine is installed; a running Berth uses it after its next start\n$/,
    );
    await using running = await startBerth({
      program: berth,
      env: { SVC_STATE_DIR: state },
      prepare: async ({ configDir, modelsDir }) => {
        await writeTinyModel(join(modelsDir, "tiny.gguf"));
        await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
      },
    });
    await running.state("primary", "ready", "idle");
    const chat = await berthProcess(
      ["chat", "primary", "hi", "--max-tokens", "4"],
      { SVC_URL: running.url },
      { program: berth },
    );
    assert.deepEqual({ code: chat.code, stderr: chat.stderr }, { code: 0, stderr: "" });
    assert.notEqual(chat.stdout, "\n");
  });
});
