import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { manifest } from "../paths/fixture.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

/** The manifest of a slot whose engine is the double, started with these words. */
export const coder = (more = "", ...words: readonly string[]): string => manifest(words, more);

/** Saves the manifest of the slot `coder`. */
export async function save({ configDir }: { readonly configDir: string }, text = coder()): Promise<void> {
  await writeFile(join(configDir, "slots/coder.toml"), text);
}

/** `berth up` whose slot `coder` is ready. */
export async function startUp(options: { manifest?: string; env?: NodeJS.ProcessEnv } = {}): Promise<RunningBerth> {
  const { manifest: text, ...others } = options;
  const berth = await startBerth({ ...others, prepare: (dirs) => save(dirs, text) });
  await berth.state("coder", "ready", "idle");
  return berth;
}

/** The engine of `coder`, once it is published as ready. */
export async function engineOf(
  { stateDir }: Pick<RunningBerth, "stateDir">,
  isWanted: (pid: number) => boolean = () => true,
): Promise<{ readonly pid: number; readonly port: number }> {
  return await until("its engine is ready", async () => {
    const status = (await readPublished(stateDir, "coder"))?.status;
    const [{ pid, port } = {}] = status?.state === "ready" ? status.processes : [];
    return pid !== undefined && port !== undefined && isWanted(pid) && { pid, port };
  });
}

/** Resolves with the headers of the answer. */
export async function chat({ url }: RunningBerth, more: object = {}): Promise<Response> {
  return await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hello" }], ...more }),
  });
}

export async function isReady({ operatorUrl }: RunningBerth): Promise<boolean> {
  return (await fetch(`${operatorUrl}/readyz`)).ok;
}
