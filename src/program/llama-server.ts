import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";
import { SettingsError } from "./settings.ts";

/**
 * The `llama-server` to run: the configured path, else the first on PATH, else none (then the embedded engine
 * serves). Throws SettingsError when the configured path is not an executable file.
 */
export async function findLlamaServer(
  configured: string | undefined,
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  if (configured === "" || configured === "none") return undefined;
  if (configured !== undefined) {
    if (await isExecutable(configured)) return resolve(configured);
    throw new SettingsError([`SVC_LLAMA_SERVER names ${configured}, which is not an executable file`]);
  }
  for (const directory of (env["PATH"] ?? "").split(delimiter)) {
    if (directory === "") continue;
    const path = join(directory, "llama-server");
    if (await isExecutable(path)) return resolve(path);
  }
  return undefined;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
