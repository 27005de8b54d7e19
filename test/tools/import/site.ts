import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { configSite } from "../config/site.ts";

export const fixtures = fileURLToPath(new URL("../../fixtures/import", import.meta.url));

/** The line about arguments on a machine without a llama-server. */
export function noServer(...slots: readonly string[]): string {
  return `no llama-server was found here, and the embedded engine may not know the args of ${slots.join(", ")}: name a llama-server in SVC_LLAMA_SERVER`;
}

/** A configuration directory, and what `berth config import` makes of other programs' files. */
export async function importSite(files: Readonly<Record<string, string>> = {}) {
  const site = await configSite(files);
  const env = { SVC_MODELS_DIR: join(site.path, "models"), SVC_LLAMA_SERVER: "none" };
  /** Every manifest below the directory without its first line, by file. */
  const manifests = async (): Promise<Record<string, string>> => {
    const names = await readdir(site.configDir, { recursive: true }).catch(() => []);
    const texts: Record<string, string> = {};
    for (const name of names.map(String).toSorted())
      if (name.endsWith(".yaml"))
        texts[name] = (await readFile(join(site.configDir, name), "utf8"))
          .replace(/^# Imported from .*\n/, "")
          .replaceAll(site.path, "DIR");
    return texts;
  };
  return {
    ...site,
    env,
    manifests,
    /** `berth config import LINE`; FIXTURES in what it prints is the directory of fixtures. */
    async import(line: string, more: NodeJS.ProcessEnv = {}) {
      const { stdout, ...ended } = await site.config(`import ${line.replace("FIXTURES", fixtures)}`, {
        ...env,
        ...more,
      });
      const plain = stdout.replaceAll(fixtures, "FIXTURES");
      const [, list = ""] = /^Not carried, or not quite:\n((?: {2}.*\n)*)/m.exec(plain) ?? [];
      return {
        ...ended,
        stderr: ended.stderr.replaceAll(fixtures, "FIXTURES"),
        stdout: plain,
        left: list.split("\n").flatMap((text) => text.trim() || []),
      };
    },
    [Symbol.asyncDispose]: () => site[Symbol.asyncDispose](),
  };
}
