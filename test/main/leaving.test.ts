import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { readProc } from "../../src/lib/process-identity.ts";
import { openPublisher } from "../../src/store/state/publisher.ts";
import { startBerth } from "../support/berth.ts";
import { publishedSlot } from "../support/gateway.ts";
import { readPublished } from "../support/published.ts";
import { scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { later } from "../support/later.ts";

const entry = fileURLToPath(new URL("../../src/main/part-entry.ts", import.meta.url));
const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

describe("berth operator", () => {
  it(
    "ends at once while an engine needs time to end, and leaves that engine to the next operator",
    { timeout: 120_000 },
    async () => {
      const command = [process.execPath, "--disable-warning=ExperimentalWarning", engine, "--ignore-term"];
      const stubborn = `engine = "custom"\ncommand = ${JSON.stringify(command)}\nstop_seconds = 3600\n`;
      await using berth = await startBerth({
        args: ["operator"],
        prepare: ({ configDir }) => writeFile(join(configDir, "slots/coder.toml"), stubborn),
      });
      await until("the engine is ready", () => /coder: ready/.test(berth.log()));
      const found = await readPublished(berth.stateDir, "coder");
      const pid = found?.status.processes[0]?.pid ?? assert.fail("it has no pid");
      try {
        await writeFile(join(berth.configDir, "slots/coder.toml"), `enabled = false\n${stubborn}`);
        const said = join(berth.stateDir, "logs/coder.main.log");
        await until("it is being ended", async () => (await readFile(said, "utf8")).includes("SIGTERM"));
        assert.equal(await berth.stop("SIGTERM"), 0);
        assert.ok(process.kill(pid, 0), "it runs");
      } finally {
        process.kill(pid, "SIGKILL");
        await until("it has ended", () => readProc(pid) === undefined);
      }
    },
  );
});

describe("a part of berth up", () => {
  for (const [part, code] of [
    ["operator", 1],
    ["serve", 0],
  ] as const) {
    it(`ends by itself where berth up has gone before it began: ${part}`, { timeout: 120_000 }, async () => {
      await using berth = await startBerth({ args: ["--version"] });
      const child = fork(entry, [part], { env: berth.env, stdio: ["ignore", "ignore", "pipe", "ipc"] });
      try {
        let said = "";
        child.stderr?.on("data", (chunk: Buffer) => (said += chunk.toString()));
        child.disconnect();
        assert.deepEqual(await once(child, "exit"), [code, null]);
        assert.equal(said, "");
      } finally {
        child.kill("SIGKILL");
      }
    });
  }
});

describe("berth serve", () => {
  it("ends at once at the second signal, whatever is still being answered", { timeout: 120_000 }, async () => {
    await using inner = await scriptedEngine(() => undefined);
    await using berth = await startBerth({ args: ["--version"] });
    const publisher = await openPublisher(berth.stateDir);
    await publisher.writeSlot(publishedSlot("coder", { port: inner.port }, 1));
    await using gateway = await startBerth({ args: ["serve"], env: { ...berth.env, SVC_DRAIN_SECONDS: "3600" } });
    await until("it answers", async () => (await fetch(`${berth.url}/livez`)).ok);
    const asked = later(
      fetch(`${berth.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: '{"model":"coder","messages":[{"role":"user","content":"hi"}]}',
      }),
    );
    await until("the engine works on it", () => inner.seen.length === 1);
    gateway.child.kill("SIGTERM");
    await until("it drains", async () => (await fetch(`${berth.url}/readyz`)).status === 503);
    assert.equal(await gateway.stop("SIGTERM"), 0);
    const told = await asked;
    assert.equal(told.status, 503);
    assert.match(told.headers.get("retry-after") ?? "", /^\d+$/);
  });
});
