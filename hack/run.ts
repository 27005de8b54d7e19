import { spawn } from "node:child_process";
import { constants } from "node:fs";
import { access, copyFile, mkdir, symlink, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Client, CommandError } from "../src/cli/client.ts";
import { chat } from "../src/cli/chat.ts";
import { isRecord } from "../src/cli/output.ts";
import { readGguf } from "../src/models/gguf.ts";
import { writeTinyModel } from "./tiny-model.ts";

/** `make run`: a model behind the gateway in one command, on embedded defaults, offline after set-up. */

const root = fileURLToPath(new URL("..", import.meta.url));
const runDir = process.env["BERTH_RUN_DIR"] ?? join(root, ".run");
const configDir = join(runDir, "config");
const modelsDir = join(runDir, "models");
const port = Number(process.env["SVC_PORT"] || "8080");
const model = process.env["MODEL"];
const readySeconds = model === undefined ? 60 : 600;

class Stop extends Error {}

try {
  await prepare();
} catch (error) {
  const isKnown = error instanceof Stop || (error instanceof Error && "code" in error);
  process.stderr.write(`make run: ${isKnown && error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

const child = spawn(
  process.execPath,
  ["--disable-warning=ExperimentalWarning", join(root, "src/main/berth.ts"), "up"],
  {
    stdio: ["ignore", "inherit", "inherit"],
    env: {
      ...process.env,
      BERTH_LOG: process.env["BERTH_LOG"] ?? "text",
      SVC_CONFIG_DIR: configDir,
      SVC_STATE_DIR: process.env["SVC_STATE_DIR"] ?? join(runDir, "state"),
      SVC_MODELS_DIR: modelsDir,
      SVC_RUNTIME: "process",
      SVC_PORT: String(port),
      SVC_HOST: process.env["SVC_HOST"] ?? "127.0.0.1",
    },
  },
);
let isStopping = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.on(signal, () => {
    isStopping = true;
    child.kill(signal === "SIGHUP" ? "SIGTERM" : signal);
  });
}
child.once("exit", (code) => process.exit(code ?? 1));
void greet().catch((error: unknown) => {
  if (isStopping) return;
  const text = error instanceof CommandError ? `${error.code}: ${error.message}` : String(error);
  process.stderr.write(`make run: ${text}\n`);
});

async function prepare(): Promise<void> {
  if (await isTaken(port))
    throw new Stop(`port ${port} is taken; stop what listens there, or choose another: SVC_PORT=8090 make run`);
  for (const directory of [join(configDir, "slots"), modelsDir]) {
    try {
      await mkdir(directory, { recursive: true });
      await access(directory, constants.W_OK);
    } catch {
      throw new Stop(`${directory} cannot be written; choose another place: BERTH_RUN_DIR=/tmp/berth make run`);
    }
  }
  for (const [name, embedding] of [
    ["tiny", false],
    ["tiny-embed", true],
  ] as const) {
    const path = join(modelsDir, `${name}.gguf`);
    if (!(await exists(path))) await writeTinyModel(path, { embedding });
  }
  for (const name of ["primary.toml", "embed.toml"]) {
    const path = join(configDir, "slots", name);
    // A person's edits are theirs: only what is missing is written.
    if (!(await exists(path))) await copyFile(join(root, "manifests/examples/slots", name), path);
  }
  if (model !== undefined && model !== "") await useModel(resolve(model));
}

/** Puts the given file where the example slot finds it: under the name that its manifest asks for. */
async function useModel(path: string): Promise<void> {
  if (!(await exists(path))) throw new Stop(`MODEL=${path} is not there`);
  try {
    await readGguf(path);
  } catch (error) {
    throw new Stop(`MODEL=${path} ${error instanceof Error ? error.message : "cannot be read"}`);
  }
  const target = join(modelsDir, basename(path));
  if (target !== path) {
    await rm(target, { force: true });
    await symlink(path, target);
  }
  const { readFile, writeFile } = await import("node:fs/promises");
  const manifest = join(configDir, "slots", "primary.toml");
  const text = await readFile(manifest, "utf8");
  const next = text.replace(/^default = ".*"$/m, `default = ${JSON.stringify(basename(path, ".gguf"))}`);
  if (next !== text) await writeFile(manifest, next);
}

async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

async function isTaken(wanted: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", (error) => resolve("code" in error && error.code === "EADDRINUSE"));
    probe.listen(wanted, process.env["SVC_HOST"] ?? "127.0.0.1", () => probe.close(() => resolve(false)));
  });
}

async function greet(): Promise<void> {
  const url = `http://127.0.0.1:${port}`;
  const client = new Client({ server: url, token: undefined });
  const deadline = Date.now() + readySeconds * 1000;
  for (;;) {
    const slot = await client.get("/api/slots/primary").catch(() => undefined);
    if (isRecord(slot) && ["ready", "serving", "idle"].includes(String(slot["state"]))) break;
    if (isStopping) return;
    if (Date.now() > deadline)
      throw new Stop(`primary is not ready after ${readySeconds} s; see bin/berth slot show primary`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  process.stdout.write("\nprimary is ready. One streamed chat:\n\n  you:     Tell me something\n  primary: ");
  for await (const piece of chat(client, "primary", "Tell me something", 24)) process.stdout.write(piece);
  const noise =
    model === undefined
      ? "\n\n(The tiny model's weights are noise, so are its words. MODEL=/path/to/real.gguf make run serves a real one.)"
      : "\n";
  const server = port === 8080 ? "" : ` --server ${url}`;
  process.stdout.write(`${noise}

  API     ${url}/v1
  page    ${url}/
  config  ${configDir} (edit slots/primary.toml, or add a file, and watch)

Try in another terminal:
  bin/berth${server} status
  bin/berth${server} chat primary "hello"
  curl ${url}/v1/chat/completions -H 'content-type: application/json' -d '{"model":"primary","messages":[{"role":"user","content":"hi"}]}'

Ctrl-C stops everything.

`);
}
