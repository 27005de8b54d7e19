import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runBerth, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

export type ConfigSite = Awaited<ReturnType<typeof configSite>>;

/** A directory with `config`, which has these files, and `state`; it is called DIR in what a command prints. */
export async function configSite(files: Readonly<Record<string, string>> = {}) {
  const directory = await tempDir();
  const { path } = directory;
  const configDir = join(path, "config");
  const places = { HOME: path, SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: join(path, "state") };
  /** Writes a file below the configuration directory. */
  const put = async (file: string, text: string): Promise<void> => {
    await mkdir(dirname(join(configDir, file)), { recursive: true });
    await writeFile(join(configDir, file), text);
  };
  for (const [file, text] of Object.entries(files)) await put(file, text);
  return {
    path,
    configDir,
    put,
    /** `berth config LINE`; CONFIG in it is the configuration directory. */
    async config(line: string, env: NodeJS.ProcessEnv = {}): Promise<Ended> {
      const words = line.replace("CONFIG", configDir).split(" ");
      const ended = await runBerth(["config", ...words], { ...places, ...env });
      const anonymous = (text: string): string => text.replaceAll(path, "DIR");
      return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
