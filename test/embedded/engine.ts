import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeTinyModel, type TinyOptions } from "../../hack/tiny-model.ts";
import { freePort } from "../support/free-port.ts";
import { choice, list, post, record } from "../support/openai.ts";
import { writeToolCaller } from "../support/scripted-model.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const embeddedProgram = fileURLToPath(new URL("../../engines/src/main.ts", import.meta.url));

interface RunningEngine extends AsyncDisposable {
  readonly url: string;
  /** All output until now. */
  log(): string;
  /** The status of its health route. Rejects before it listens, and after it has ended. */
  health(): Promise<number>;
}

/** Starts the embedded engine alone, on a free port, with a tiny model. Resolves before it listens. */
export async function launchEngine(
  model: TinyOptions | "tool caller",
  ...flags: readonly (string | { readonly key: string })[]
): Promise<RunningEngine> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const file = join(path, "model.gguf");
  await (model === "tool caller" ? writeToolCaller(file) : writeTinyModel(file, model));
  const port = await freePort();
  const args = flags.filter((flag) => typeof flag === "string");
  const [key] = flags.filter((flag) => typeof flag !== "string");
  const env = { ...process.env, ...(key === undefined ? {} : { LLAMA_API_KEY: key.key }) };
  const line = [embeddedProgram, "--model", file, "--alias", "tiny", "--port", String(port), "--threads", "1", ...args];
  const child = spawn(process.execPath, line, { env, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stdout.on("data", (chunk: Buffer) => (log += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  stack.defer(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  const owned = stack.move();
  return {
    url,
    log: () => log,
    async health() {
      if (child.exitCode !== null) throw new Error(`the engine ended with ${child.exitCode}\n${log}`);
      return (await fetch(`${url}/health`)).status;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Starts the embedded engine as `launchEngine` does. Resolves once the model is loaded. */
export async function startEngine(...given: Parameters<typeof launchEngine>): Promise<RunningEngine> {
  const engine = await launchEngine(...given);
  try {
    await until("the engine has loaded", async () => (await engine.health()) === 200);
    return engine;
  } catch (error) {
    await engine[Symbol.asyncDispose]();
    throw error;
  }
}

/** Posts a request that the engine must refuse. Returns the status and the message. */
export async function refusal(url: string, path: string, body: object): Promise<string> {
  const response = await post(url, path, body);
  return `${response.status} ${String(record(record(await response.json())["error"])["message"])}`;
}

/** The calls of an answer, with their arguments parsed. */
export function calls(body: Record<string, unknown>): { name: unknown; input: unknown }[] {
  return list(record(choice(body)["message"])["tool_calls"]).map(({ function: called }) => {
    const { name, arguments: text } = record(called);
    return { name, input: JSON.parse(String(text)) };
  });
}
