import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { startBerth } from "../support/berth.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const hook = new URL("../support/timer-count.ts", import.meta.url).href;
const countsSchema = z.array(z.tuple([z.string(), z.number()]));

/** Timers of less than a second that a process has let fire within three, from now on. */
async function shortTimers(path: string): Promise<z.infer<typeof countsSchema>> {
  const read = async (): Promise<z.infer<typeof countsSchema>> =>
    countsSchema.parse(JSON.parse(await readFile(path, "utf8")));
  // What is written first has begun before now.
  for (const which of ["this window's", "the next one's"]) {
    await rm(path, { force: true });
    await until(`${which} counts are written`, read);
  }
  return await read();
}

test("operator and gateway at rest wake for each other's heartbeats, and for little else", async () => {
  await using directory = await tempDir();
  const path = (part: string): string => join(directory.path, part);
  const counting = (part: string): NodeJS.ProcessEnv => ({ NODE_OPTIONS: `--import=${hook}`, TIMER_COUNT: path(part) });
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", engine];
  await using operator = await startBerth({
    args: ["operator", "--stop-engines"],
    env: counting("operator"),
    prepare: async ({ configDir }) => {
      for (const name of ["a", "b", "c"])
        await writeFile(
          join(configDir, `slots/${name}.toml`),
          `engine = "custom"\ncommand = ${JSON.stringify(command)}\n`,
        );
    },
  });
  await using _gateway = await startBerth({ args: ["serve"], env: { ...operator.env, ...counting("gateway") } });
  for (const name of ["a", "b", "c"]) await operator.state(name, "ready", "idle");
  for (const part of ["operator", "gateway"]) {
    const told: string[] = [];
    const isQuiet = async (): Promise<boolean> => {
      const timers = await shortTimers(path(part));
      told.push(`${part}: ${JSON.stringify(timers, null, 1)}`);
      // What runs by itself again and again would be three of a kind, at the least.
      assert.deepEqual(
        timers.filter(([what]) => what.startsWith("setInterval")),
        [],
        told.join("\n"),
      );
      return timers.reduce((sum, [, count]) => sum + count, 0) <= 15;
    };
    // A halted process does the work of two windows in one: the next one is its own again.
    assert.ok((await isQuiet()) || (await isQuiet()), told.join("\n"));
  }
});
