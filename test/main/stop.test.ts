import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { isRecord } from "../../src/lib/record.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { idleProcessMs } from "../support/pace.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

/** `berth up` with one engine, and that engine's process. */
async function startUp(...flags: readonly string[]): Promise<{ berth: RunningBerth; pid: number }> {
  const command = JSON.stringify([process.execPath, "--disable-warning=ExperimentalWarning", engine, ...flags]);
  const berth = await startBerth({
    prepare: ({ configDir }) =>
      writeFile(join(configDir, "slots/coder.toml"), `engine = "custom"\ncommand = ${command}\nstop_seconds = 600\n`),
  });
  return { berth, pid: pidOf(await berth.state("coder", "ready", "idle")) };
}

function pidOf({ processes }: Record<string, unknown>): number {
  const [first]: unknown[] = Array.isArray(processes) ? processes : [];
  return isRecord(first) ? Number(first["pid"]) : 0;
}

/** The part of `berth up` that was started with that word. */
async function partOf(berth: RunningBerth, word: string): Promise<number> {
  const root = berth.child.pid ?? 0;
  const children = (await readFile(`/proc/${root}/task/${root}/children`, "utf8")).trim().split(" ").map(Number);
  for (const pid of children) {
    if ((await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0").includes(word)) return pid;
  }
  throw new Error(`berth up has no ${word}`);
}

describe("berth up", () => {
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    it(`ends at ${signal} as at Ctrl-C, with every engine`, async () => {
      const { berth, pid } = await startUp();
      await using _berth = berth;
      assert.equal(await berth.stop(signal), 0, berth.log());
      assert.equal(startTimeOf(pid), undefined);
    });
  }

  it("kills at once at the second Ctrl-C, an engine too that ignores TERM and has ten minutes", async () => {
    const { berth, pid } = await startUp("--ignore-term");
    await using _berth = berth;
    berth.child.kill("SIGTERM");
    await until("it stops its engine", () => /stopping every engine/.test(berth.log()));
    assert.notEqual(startTimeOf(pid), undefined, "the engine takes its time");
    const began = performance.now();
    const idle = idleProcessMs();
    await berth.stop("SIGINT");
    const seconds = (performance.now() - began) / 1000;
    assert.equal(startTimeOf(pid), undefined);
    // Without the second one it would be more than half a minute.
    assert.ok(seconds < 25 + (10 * (await idle)) / 1000, `${seconds} s`);
  });

  it("has another gateway listen while a stopping gateway completes its requests", async () => {
    const { berth } = await startUp("--token-ms", "300");
    await using _berth = berth;
    const gateway = await partOf(berth, "serve");
    const ask = { model: "coder", stream: true, messages: [{ role: "user", content: "hi" }] };
    const open = await fetch(new URL("/v1/chat/completions", berth.url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(ask),
    });
    process.kill(gateway, "SIGTERM");
    await until("that is told", () => /gateway was stopped by another process; its successor starts/.test(berth.log()));
    assert.match(await open.text(), /\[DONE\]/);
    await until("the next one answers", async () => await berth.slot("coder"));
    await until("the first one is gone", () => startTimeOf(gateway) === undefined);
    assert.equal(await berth.stop("SIGTERM"), 0, berth.log());
  });

  it("starts a gateway again that died, and leaves the engines alone", async () => {
    const { berth, pid } = await startUp();
    await using _berth = berth;
    const gateway = await partOf(berth, "serve");
    process.kill(gateway, "SIGKILL");
    await until("that is told", () => /gateway ended \(SIGKILL\); starting it again/.test(berth.log()));
    const slot = await until("another one answers", async () => await berth.slot("coder"));
    assert.equal(pidOf(slot), pid);
    assert.notEqual(await partOf(berth, "serve"), gateway);
    const response = await fetch(new URL("/v1/chat/completions", berth.url), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hi" }] }),
    });
    assert.equal(response.status, 200, await response.text());
  });
});
