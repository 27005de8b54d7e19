import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { writeTinyModel, type TinyOptions } from "../../hack/tiny-model.ts";
import { freePort } from "../support/free-port.ts";
import { writeToolCaller } from "../support/scripted-model.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

export const embeddedProgram = fileURLToPath(new URL("../../engines/src/main.ts", import.meta.url));

export interface RunningEngine extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** All output until now. */
  log(): string;
}

/** The embedded engine alone, with a tiny model, loaded and listening on a port of its own. */
export async function startEngine(
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
  await until("the engine has loaded", async () => {
    if (child.exitCode !== null) throw new Error(`the engine ended with ${child.exitCode}\n${log}`);
    return (await fetch(`${url}/health`)).ok;
  });
  const owned = stack.move();
  return { url, pid: child.pid ?? 0, log: () => log, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
