import { constants as fileModes, existsSync } from "node:fs";
import { access, copyFile, cp, mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { constants } from "node:os";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client, CommandError } from "../src/cli/client.ts";
import { pieces } from "../src/cli/chat.ts";
import { cell } from "../src/cli/output.ts";
import type { SlotRow } from "../src/cli/slot-words.ts";
import { localUrl } from "../src/lib/listen-address.ts";
import { watchOutput } from "../src/program/lost-output.ts";
import type { RunningUp } from "../src/program/supervisor.ts";
import { startUp } from "../src/program/up.ts";
import { elsewhere, socketPath } from "../src/runtimes/docker/socket.ts";
import { distrust } from "../src/lib/trusted-path.ts";
import { errorCode, errorMessage } from "../src/lib/error-code.ts";
import { checkModel, givenModel, isTaken, serveGiven, useModel, type Given } from "./run-model.ts";
import { greeting, lockedGreeting, remarkOn, shownPieces } from "./run-greeting.ts";
import { checkSettings } from "./run-settings.ts";
import { complain, exists, Stop, textOf } from "./run-stop.ts";
import { watchTerminal } from "./run-terminal.ts";
import { writeTinyModel } from "./tiny-model.ts";
import { StatusLine } from "../src/cli/terminal.ts";
import { writeFirstModel } from "./first-model.ts";

/** `make run`: a model behind the gateway in one command, on embedded defaults, offline after set-up. */

const root = fileURLToPath(new URL("..", import.meta.url));
const runDir = resolve(process.env["BERTH_RUN_DIR"] || join(root, ".run"));
const configDir = join(runDir, "config");
const modelsDir = join(runDir, "models");
const host = process.env["SVC_HOST"] || "127.0.0.1";
const port = Number(process.env["SVC_PORT"] || "8080");
const operatorPort = Number(process.env["SVC_OPERATOR_PORT"] || "8079");
const model = process.env["MODEL"] || undefined;
const tinyModel = "tiny";
const readySeconds = model === undefined ? 60 : 600;
/** Tokens of an answer that is a demonstration, with the thoughts before it. */
const answerTokens = 1000;
const pollMs = 50;
const stopSignals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** `SVC_RUNTIME=docker make run`: the embedded engine in a container, its image made from this clone. */
const isDocker = process.env["SVC_RUNTIME"] === "docker";

watchOutput();
process.exit(await run());

async function run(): Promise<number> {
  let image: string | undefined;
  let given: Given | undefined;
  // No other user may write the files that it makes.
  process.umask(process.umask() | 0o022);
  try {
    given = model === undefined ? undefined : await givenModel(model);
    await prepare(given);
    if (isDocker) image = await containerImage();
  } catch (error) {
    const isKnown = error instanceof Stop || (error instanceof Error && "code" in error);
    complain(isKnown && error instanceof Error ? error.message : String(error));
    return 1;
  }
  process.stdout.write(`starting the operator and the gateway; their files are in ${runDir}\n`);
  // In this process: a Ctrl-C on a terminal reaches every process of its group, and two signals would mean "kill at
  // once".
  const line = new StatusLine(process.stdout);
  const sinceMs = performance.now();
  const counting = setInterval(
    () => line.show("starting", ` ${Math.round((performance.now() - sinceMs) / 1000)} s`),
    1000,
  );
  const starting = startUp({
    env: {
      ...process.env,
      BERTH_LOG: process.env["BERTH_LOG"] || "text",
      SVC_CONFIG_DIR: configDir,
      SVC_STATE_DIR: process.env["SVC_STATE_DIR"] || join(runDir, "state"),
      SVC_MODELS_DIR: modelsDir,
      SVC_RUNTIME: isDocker ? "docker" : "process",
      ...(image === undefined ? {} : { SVC_LLAMA_IMAGE: image }),
      SVC_PORT: String(port),
      SVC_HOST: host,
    },
  });
  const stopping = new AbortController();
  for (const signal of stopSignals) process.on(signal, () => stopping.abort());
  using _terminal = watchTerminal();
  try {
    const running = await starting.finally(() => {
      clearInterval(counting);
      line[Symbol.dispose]();
    });
    void greet(running, given, stopping.signal).catch((error: unknown) => {
      if (!stopping.signal.aborted) complain(textOf(error));
    });
    return await running.ended;
  } catch (error) {
    complain(errorMessage(error));
    return 1;
  } finally {
    stopping.abort();
  }
}

/** One level at a time: Node's recursive mkdir never ends where the file system answers ENOENT, as /proc does. */
async function makeDirectory(path: string): Promise<void> {
  if (existsSync(path)) return;
  await makeDirectory(dirname(path));
  await mkdir(path, 0o755);
}

/** Another user who made it first, as in /tmp, could run a `command` as this user. */
async function refuseForeign(directory: string): Promise<void> {
  const found = distrust(directory, { depth: 2 });
  if (found === undefined) return;
  throw new Stop(`${directory} is not safe: ${found.reason}; ${found.next}`);
}

async function prepare(given: Given | undefined): Promise<void> {
  checkSettings(process.env);
  if (port === operatorPort)
    throw new Stop(`port ${port} is the operator's (SVC_OPERATOR_PORT); choose another: SVC_PORT=8090 make run`);
  if ((await listenFailure(operatorPort, "127.0.0.1")) === "EADDRINUSE")
    throw new Stop(
      `port ${operatorPort}, the operator's, is taken: does another Berth run? Stop it, or give this one ports and a ` +
        'directory of its own: SVC_OPERATOR_PORT=8078 SVC_PORT=8090 BERTH_RUN_DIR="$HOME/berth" make run',
    );
  const failure = await listenFailure(port, host);
  if (failure === "EADDRINUSE")
    throw new Stop(`port ${port} is taken; stop what listens there, or choose another: SVC_PORT=8090 make run`);
  if (failure === "EACCES") throw new Stop(`port ${port} is for root; choose one above 1023: SVC_PORT=8090 make run`);
  if (failure === "EADDRNOTAVAIL" || failure === "ENOTFOUND")
    throw new Stop(`SVC_HOST=${host} is not an address of this machine; without SVC_HOST it listens on 127.0.0.1`);
  for (const directory of [join(configDir, "slots"), modelsDir]) {
    try {
      await makeDirectory(directory);
      // Before anything is written there, and after nobody else can create it any more.
      await refuseForeign(runDir);
      await access(directory, fileModes.W_OK);
    } catch (error) {
      if (error instanceof Stop) throw error;
      throw new Stop(`${directory} cannot be written; choose another place: BERTH_RUN_DIR="$HOME/berth" make run`);
    }
  }
  const file = given !== undefined && "path" in given ? given.path : undefined;
  if (file !== undefined) await checkModel(file);
  const [first, embedding] = [tinyModel, `${tinyModel}-embed`].map((name) => join(modelsDir, `${name}.gguf`));
  if (first !== undefined && !(await isTaken(first))) await writeFirstModel(first);
  if (embedding !== undefined && !(await exists(embedding))) await writeTinyModel(embedding, { embedding: true });
  for (const name of ["primary.toml", "embed.toml"]) {
    const path = join(configDir, "slots", name);
    // A person's edits stay: only missing files are written.
    if (!(await exists(path))) await copyFile(join(root, "manifests/examples/slots", name), path);
  }
  // The manifests name their editor schemas by `../../schemas`.
  await cp(join(root, "manifests/schemas"), join(runDir, "schemas"), { recursive: true });
  const changed = file === undefined ? undefined : await useModel(file, runDir);
  if (changed !== undefined) process.stdout.write(`${changed}\n`);
}

async function containerImage(): Promise<string> {
  if (process.env["SVC_LLAMA_IMAGE"]) return process.env["SVC_LLAMA_IMAGE"];
  // Imported only here, since its client is large.
  const { embeddedImage } = await import("./images/embedded.ts");
  const { unreachableMessage: silenceOf } = await import("../src/runtimes/docker/daemon.ts");
  // Until `up` handles signals. This exit removes the image's files; the default would not.
  const onSignal = (signal: NodeJS.Signals): never => process.exit(128 + constants.signals[signal]);
  for (const signal of stopSignals) process.on(signal, onSignal);
  try {
    const dockerHost = process.env["SVC_DOCKER_HOST"] || process.env["DOCKER_HOST"] || "";
    const path = socketPath(dockerHost);
    if (path === undefined) throw new Error(elsewhere(dockerHost));
    try {
      return await embeddedImage(path, (line) => process.stdout.write(`${line}\n`));
    } catch (error) {
      throw error instanceof Error && "code" in error ? new Error(silenceOf(path, error)) : error;
    }
  } catch (error) {
    throw new Stop(
      `${errorMessage(error)}\nSVC_RUNTIME=docker needs Docker 20.10 or Podman 4.3 on this machine (Debian: apt-get install docker.io) ` +
        "and a user that may use its socket; another socket: DOCKER_HOST=unix:///path",
    );
  } finally {
    for (const signal of stopSignals) process.off(signal, onSignal);
  }
}

/** Why no program can listen there; undefined: it can. */
async function listenFailure(wanted: number, address: string): Promise<string | undefined> {
  return await new Promise((settle) => {
    const probe = createServer();
    probe.once("error", (error) => settle(errorCode(error)));
    probe.listen(wanted, address, () => probe.close(() => settle(undefined)));
  });
}

async function greet(running: RunningUp, given: Given | undefined, stopping: AbortSignal): Promise<void> {
  const url = localUrl(host, port);
  const client = new Client({ server: url, token: process.env["SVC_TOKEN"] });
  let slot: SlotRow | undefined;
  try {
    await untilSlot(client, stopping, ({ enabled }) => enabled === true);
    const served =
      given !== undefined && "name" in given
        ? await serveGiven(client, given.name, { runDir, screen: process.stdout, signal: stopping })
        : undefined;
    slot = await untilSlot(
      client,
      stopping,
      ({ state, model: held }) =>
        ["ready", "serving", "idle"].includes(cell(state)) && (served === undefined || held === served),
    );
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    process.stdout.write(lockedGreeting({ url, port, operatorPort, configDir }));
    return;
  }
  if (slot === undefined) return;
  // The gateway's log line about the chat would otherwise appear within the chat.
  using stack = new DisposableStack();
  const held = stack.use(running.holdLog());
  const onStop = (): void => {
    process.stdout.write("\n");
    held[Symbol.dispose]();
  };
  stopping.addEventListener("abort", onStop, { once: true });
  stack.defer(() => stopping.removeEventListener("abort", onStop));
  process.stdout.write("\nprimary is ready. One streamed chat:\n\n  you:     Tell me something\n  primary: ");
  const messages = [{ role: "user", content: "Tell me something" }] as const;
  const isFirstModel = slot["model"] === tinyModel;
  const enough = new AbortController();
  const asked = { model: "primary", messages, maxTokens: answerTokens, signal: enough.signal };
  let answer = "";
  for await (const text of shownPieces(pieces(client, asked))) {
    process.stdout.write(text);
    answer += text;
  }
  enough.abort();
  if (stopping.aborted) return;
  const remark = remarkOn(
    answer,
    await client.one("GET /api/slots/{name}", "name", { params: { name: "primary" } }),
    isFirstModel,
  );
  process.stdout.write(greeting({ url, port, operatorPort, configDir, remark }));
}

/**
 * The slot primary once it is as wanted, with its states on the terminal meanwhile; undefined when everything stops first.
 * Throws Stop after the time limit, and CommandError without a valid token.
 */
async function untilSlot(
  client: Client,
  stopping: AbortSignal,
  isWanted: (slot: SlotRow) => boolean,
): Promise<SlotRow | undefined> {
  const deadline = Date.now() + readySeconds * 1000;
  using line = new StatusLine(process.stdout);
  while (!stopping.aborted) {
    const asked = client.call("GET /api/slots/{name}", { params: { name: "primary" } });
    const slot = await asked.catch((error: unknown) => {
      if (error instanceof CommandError && error.code.startsWith("auth.")) throw error;
    });
    if (slot !== undefined) {
      if (isWanted(slot)) return slot;
      line.show(`primary: ${cell(slot.state)}`);
    }
    if (Date.now() > deadline)
      throw new Stop(`primary is not ready after ${readySeconds} s; bin/berth slot show primary tells why`);
    await delay(pollMs);
  }
  return undefined;
}
