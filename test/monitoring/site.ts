import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startBerth, type RunningBerth } from "../support/berth.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const engine = JSON.stringify([
  process.execPath,
  "--disable-warning=ExperimentalWarning",
  join(root, "test/doubles/engine.ts"),
  ..."--port $(PORT) --tokens 8 --token-ms 5".split(" "),
]);

/**
 * A Berth with a slot that is always loaded, one on demand, two that displace each other, and a provider. With `isFetching`
 * also a slot whose model does not come: the provider has no model there.
 */
export async function startSite(provider: number, { isFetching = false } = {}): Promise<RunningBerth> {
  return await startBerth({
    prepare: async ({ configDir }) => {
      const slot = (load: string, group = ""): string =>
        `engine = "custom"\nload = "${load}"\n${group}command = ${engine}\ncapabilities = ["chat"]\n[model]\ndefault = "fixed"\n`;
      await writeFile(join(configDir, "slots/primary.toml"), slot("always"));
      await writeFile(join(configDir, "slots/cold.toml"), slot("onDemand"));
      for (const name of ["left", "right"])
        await writeFile(join(configDir, `slots/${name}.toml`), slot("onDemand", 'group = "pair"\n'));
      await mkdir(join(configDir, "groups"), { recursive: true });
      await writeFile(join(configDir, "groups/pair.toml"), "min_residency_seconds = 0\n[budget]\nslots = 1\n");
      if (isFetching) {
        await mkdir(join(configDir, "models"), { recursive: true });
        await writeFile(join(configDir, "models/small.toml"), `source = "http://127.0.0.1:${provider}/small.gguf"\n`);
        await writeFile(join(configDir, "slots/fetching.toml"), slot("always").replace('"fixed"', '"small"'));
      }
      await mkdir(join(configDir, "upstreams"), { recursive: true });
      await writeFile(
        join(configDir, "upstreams/cloud.toml"),
        `baseUrl = "http://127.0.0.1:${provider}/v1"\n[[models]]\nref = "cloud/big"\n`,
      );
    },
  });
}

/** Requests of each kind, until there are enough for rates. */
export async function load(berth: RunningBerth, models: readonly string[]): Promise<void> {
  await Promise.all(
    models.flatMap((model) =>
      [true, false].map(async (stream) => {
        const response = await fetch(new URL("/v1/chat/completions", berth.url), {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], stream }),
        });
        await response.text();
      }),
    ),
  );
}
