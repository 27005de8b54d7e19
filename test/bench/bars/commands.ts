import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { atMost, median, range, type Bar, type Result } from "../bar.ts";
import { engineCommand, openSite } from "../machine/site.ts";

const berth = join(fileURLToPath(new URL("../../..", import.meta.url)), "bin/berth");
const slots = 20;
const times = 15;

/** How long a person waits for the commands that are typed most. */
export const commands: Bar = {
  name: "commands",
  about: `from typing berth status and berth slot list to their last line, ${slots} slots`,
  async run() {
    await using site = await openSite();
    for (let index = 0; index < slots; index++)
      await site.slot(`rest${index}`, { load: "onDemand", command: engineCommand() });
    await site.operator();
    await site.state(`rest${slots - 1}`, "offline");
    await site.gateway();
    const env = { PATH: process.env["PATH"], HOME: site.directory, SVC_URL: `http://127.0.0.1:${site.gatewayPort}` };
    const results: Result[] = [];
    for (const args of [["status"], ["slot", "list"]]) {
      // The first compiles, and keeps what it compiled.
      await took(args, env);
      const tookMs: number[] = [];
      for (let time = 0; time < times; time++) tookMs.push(await took(args, env));
      results.push(atMost(`berth ${args.join(" ")}`, median(tookMs), 250, " ms", range(tookMs)));
    }
    return results;
  },
};

async function took(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const began = performance.now();
  const child = spawn(berth, [...args], { env, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const code = await new Promise((resolve) => child.once("close", resolve));
  const tookMs = performance.now() - began;
  if (code !== 0 || !text.includes("rest0"))
    throw new Error(`berth ${args.join(" ")} ended with ${String(code)}: ${text}`);
  return tookMs;
}
