import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { listen } from "../support/listen.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
/** Probed once an hour: nothing but a look at the socket can tell in time. */
const manifest = `engine = "custom"
command = [${JSON.stringify(process.execPath)}, "--disable-warning=ExperimentalWarning", ${JSON.stringify(engine)}]
[probe]
interval_seconds = 3600
`;

async function started(): Promise<RunningBerth> {
  return await startBerth({
    prepare: ({ configDir }) => writeFile(join(configDir, "slots/solo.toml"), manifest),
  });
}

async function chat({ url }: RunningBerth): Promise<{ readonly status: number; readonly text: string }> {
  const body = JSON.stringify({ model: "solo", messages: [{ role: "user", content: "a secret" }] });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
  return { status: response.status, text: await response.text() };
}

async function deafen(slot: Record<string, unknown>): Promise<number> {
  const port = Number(slot["port"]);
  assert.equal((await fetch(`http://127.0.0.1:${port}/double/deafen`, { method: "POST" })).status, 200);
  return port;
}

const processes = (slot: Record<string, unknown>): string => JSON.stringify(slot["processes"]);

describe("an engine whose socket goes while its process lives", () => {
  it("is restarted, and serves again", async () => {
    await using berth = await started();
    const before = await berth.state("solo", "ready", "idle");
    assert.equal((await chat(berth)).status, 200);
    await deafen(before);
    await until("another one serves", async () => {
      const now = await berth.slot("solo");
      return ["ready", "idle"].includes(String(now["state"])) && processes(now) !== processes(before);
    });
    await until("the log tells why", () =>
      /solo: error: the main process no longer listens on port \d+/.test(berth.log()),
    );
    assert.equal((await chat(berth)).status, 200);
  });

  it("loses its port to another program: the slot moves to another port, and that program gets no request", async () => {
    await using berth = await started();
    const before = await berth.state("solo", "ready", "idle");
    let heard = 0;
    const stranger = createServer((_request, response) => {
      heard += 1;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content: "stranger" } }] }));
    });
    // It looks again only once the stranger has the port: the engine's successor would take that one.
    const { pid } = publishedOperatorSchema.parse(
      JSON.parse(await readFile(join(berth.stateDir, "operator.json"), "utf8")),
    );
    process.kill(pid, "SIGSTOP");
    const port = await deafen(before);
    await listen(stranger, port);
    process.kill(pid, "SIGCONT");
    try {
      await until("the slot has moved", async () => {
        const now = await berth.slot("solo");
        return ["ready", "idle"].includes(String(now["state"])) && now["port"] !== port;
      });
      const why = `solo: error: another process listens on port ${port} of the engine`;
      await until("the log tells why", () => berth.log().includes(why));
      const heardBefore = heard;
      for (let turn = 0; turn < 5; turn++) {
        const { status, text } = await chat(berth);
        assert.deepEqual([status, text.includes("stranger")], [200, false]);
      }
      assert.equal(heard, heardBefore);
    } finally {
      stranger.closeAllConnections();
      stranger.close();
    }
  });
});
