import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { llamaServer } from "../llama-server/fixture.ts";
import { freePorts } from "../support/ports.ts";
import { until } from "../support/until.ts";
import type { Models } from "./fixture.ts";
import type { ModelName } from "./models.ts";

/** A llama-server that Berth knows nothing of, with its model on the GPU. */
export async function startForeign(
  models: Models,
  model: ModelName,
  tokens: number,
): Promise<AsyncDisposable & { readonly pid: number; end(): Promise<void> }> {
  const { first: port } = await freePorts(1);
  const flags = ["--host", "127.0.0.1", "--port", String(port), "--parallel", "1", "--ctx-size", String(tokens)];
  const more = ["--fit", "off", "--cache-ram", "0", "--no-webui", "--model", join(models.path, `${model}.gguf`)];
  const child = spawn(llamaServer(), [...flags, ...more], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said = `${said}${chunk.toString()}`.slice(-4000)));
  const ended = once(child, "exit");
  const end = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await ended;
  };
  try {
    await until("the foreign engine has loaded", async () => {
      assert.equal(child.exitCode, null, said);
      return (await fetch(`http://127.0.0.1:${port}/health`)).ok;
    });
  } catch (error) {
    await end();
    throw error;
  }
  const { pid } = child;
  assert.ok(pid !== undefined);
  return { pid, end, [Symbol.asyncDispose]: end };
}
