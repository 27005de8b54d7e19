import { spawn, type ChildProcess } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Client } from "../../src/cli/client.ts";
import type { Received } from "../../src/cli/received.ts";
import type { SlotDetail } from "../../src/api/management/views.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { readRecords } from "../../src/runtimes/process/records.ts";
import { tempDir } from "./temp-dir.ts";
import { freePorts } from "./ports.ts";
import { until } from "./until.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
export const command = join(root, "bin/berth");

/** A slot as the management API answers. */
export type Slot = Received<SlotDetail>;

export interface RunningBerth extends AsyncDisposable {
  readonly url: string;
  readonly operatorUrl: string;
  readonly configDir: string;
  readonly stateDir: string;
  readonly modelsDir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly child: ChildProcess;
  readonly ports: { readonly first: number; readonly last: number };
  log(): string;
  get(path: string): Promise<unknown>;
  /** Rejects where the service refuses: there is no such slot. */
  slot(name: string): Promise<Slot>;
  /** Waits until the slot is in one of the states. */
  state(name: string, ...states: string[]): Promise<Slot>;
  /** Sends the signal, and resolves with the exit code once the process has ended and `log()` has all that it said. */
  stop(signal: NodeJS.Signals): Promise<number | null>;
  /** Resolves as `stop` does, without a signal: at the end that the process comes to by itself. */
  readonly ended: Promise<number | null>;
}

/** A whole Berth (`berth up` by default) in directories and on ports of its own. */
export async function startBerth(options: {
  args?: readonly string[];
  /** Another `berth` than the clone's. */
  program?: string;
  env?: NodeJS.ProcessEnv;
  prepare?: (dirs: { configDir: string; modelsDir: string }) => Promise<void>;
}): Promise<RunningBerth> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const configDir = join(directory.path, "config");
  const modelsDir = join(directory.path, "models");
  const stateDir = join(directory.path, "state");
  await mkdir(join(configDir, "slots"), { recursive: true });
  await mkdir(modelsDir, { recursive: true });
  await options.prepare?.({ configDir, modelsDir });
  const { first, last } = await freePorts(8);
  const env: NodeJS.ProcessEnv = {
    PATH: process.env["PATH"],
    HOME: directory.path,
    SVC_CONFIG_DIR: configDir,
    SVC_STATE_DIR: stateDir,
    SVC_MODELS_DIR: modelsDir,
    SVC_RUNTIME: "process",
    SVC_HOST: "127.0.0.1",
    SVC_PORT: String(first),
    SVC_OPERATOR_PORT: String(first + 1),
    SVC_CHAT_PORT: "0",
    SVC_SLOT_PORTS: `${first + 2}-${last}`,
    SVC_LLAMA_SERVER: "none",
    BERTH_LOG: "text",
    ...options.env,
  };
  const child = spawn(options.program ?? command, [...(options.args ?? ["up"])], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  child.stdout.on("data", (chunk: Buffer) => (log += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  // Not `exit`: what was said last may still be in the pipe then.
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  const stop = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return await ended;
  };
  stack.defer(async () => {
    await stop("SIGINT");
    if (env["SVC_STATE_DIR"] === stateDir) await assertNoEngineLeft(stateDir);
  });
  const url = `http://127.0.0.1:${env["SVC_PORT"]}`;
  const get = async (path: string): Promise<unknown> => await (await fetch(new URL(path, url))).json();
  const client = new Client({ server: url, token: undefined });
  const slot = (name: string): Promise<Slot> => client.call("GET /api/slots/{name}", { params: { name } });
  const running: RunningBerth = {
    url,
    operatorUrl: `http://127.0.0.1:${first + 1}`,
    configDir,
    stateDir,
    modelsDir,
    env,
    child,
    ports: { first: first + 2, last },
    log: () => log,
    get,
    slot,
    state: async (name, ...states) => {
      let last: unknown;
      try {
        const look = async (): Promise<Slot | undefined> => {
          const found = await slot(name);
          last = found.state;
          return states.includes(String(last)) ? found : undefined;
        };
        return await until(`${name} is ${states.join(" or ")}`, look);
      } catch (error) {
        throw new Error(`${name} is ${String(last)}, not ${states.join(" or ")}\n${log}`, { cause: error });
      }
    },
    stop,
    ended,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  if ((options.args ?? ["up"])[0] === "up") {
    const hasEnded = (): boolean => child.exitCode !== null;
    await until("the gateway answers", async () => hasEnded() || (await fetch(`${url}/livez`)).ok);
    if (hasEnded()) throw new Error(`berth ended with ${child.exitCode}\n${log}`);
  }
  const owned = stack.move();
  return running;
}

/** Ends what still runs by the records of this state directory, and throws then: a test must leave no process behind. */
async function assertNoEngineLeft(stateDir: string): Promise<void> {
  const left = (await readRecords(join(stateDir, "processes")).catch(() => [])).flatMap(({ record }) =>
    record !== undefined && startTimeOf(record.pid) === record.startTime ? [record] : [],
  );
  for (const { pid } of left) process.kill(-pid, "SIGKILL");
  if (left.length > 0) throw new Error(`the test left engines running: ${left.map(({ slot }) => slot).join(", ")}`);
}
