import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { runBerth, type Ended } from "../../support/command.ts";
import { tempDir } from "../../support/temp-dir.ts";

/** A directory with `config` and `state`, which is called DIR in what a command prints. */
export interface ConfigSite extends AsyncDisposable {
  readonly path: string;
  readonly configDir: string;
  /** Writes a file below the configuration directory. */
  put(file: string, text: string): Promise<void>;
  /** `berth config LINE`; CONFIG in it is the configuration directory. */
  config(line: string, env?: NodeJS.ProcessEnv): Promise<Ended>;
}

export async function configSite(files: Readonly<Record<string, string>> = {}): Promise<ConfigSite> {
  const directory = await tempDir();
  const { path } = directory;
  const configDir = join(path, "config");
  const places = { HOME: path, SVC_CONFIG_DIR: configDir, SVC_STATE_DIR: join(path, "state") };
  const put = async (file: string, text: string): Promise<void> => {
    await mkdir(dirname(join(configDir, file)), { recursive: true });
    await writeFile(join(configDir, file), text);
  };
  for (const [file, text] of Object.entries(files)) await put(file, text);
  return {
    path,
    configDir,
    put,
    async config(line, env = {}) {
      const words = line.replace("CONFIG", configDir).split(" ");
      const ended = await runBerth(["config", ...words], { ...places, ...env });
      const anonymous = (text: string): string => text.replaceAll(path, "DIR");
      return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
