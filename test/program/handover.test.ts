import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import {
  gatewayReportFile,
  gatewayReportSchema,
  type GatewayReport,
  type GatewayRole,
} from "../../src/api/gateway-report.ts";
import { announced } from "../../src/lib/announcement.ts";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { command, type RunningBerth } from "../support/berth.ts";
import { childOf } from "../support/child-of.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { chat, coder, engineOf, startUp } from "./coder.ts";

const loadSchema = z.object({ sent: z.int(), answered: z.int(), streams: z.int(), lost: z.array(z.string()) });

/** 50 requests a second and four open streams, until `end`. */
function startLoad(berth: RunningBerth) {
  const script = fileURLToPath(new URL("../bare/load.ts", import.meta.url));
  const child = spawn(
    process.execPath,
    ["--disable-warning=ExperimentalWarning", script, berth.url, "coder", "50", "4"],
    {
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  const printed = textOf(child.stdout);
  return {
    async end() {
      child.stdin.end();
      return loadSchema.parse(JSON.parse(await printed));
    },
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

function reportOf({ url, stateDir }: RunningBerth, role: GatewayRole): GatewayReport | undefined {
  const file = join(stateDir, gatewayReportFile(Number(new URL(url).port), role));
  return gatewayReportSchema.safeParse(announced(file)).data;
}

/** `berth serve` beside the running Berth. */
function serve(berth: RunningBerth, ...words: readonly string[]) {
  const child = spawn(command, ["serve", ...words], { env: berth.env, stdio: ["ignore", "pipe", "pipe"] });
  const said = Promise.all([textOf(child.stdout), textOf(child.stderr)]);
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    pid: child.pid ?? 0,
    said: async () => (await said).join(""),
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

it("a gateway is restarted beside a standby, and the standby stopped, without a lost request", async () => {
  const [chatPort, pagesPort] = [await freePort(), await freePort()];
  await using berth = await startUp({
    manifest: coder("", "--token-ms", "20"),
    env: {
      SVC_CHAT_PORT: String(chatPort),
      SVC_ENGINE_PAGES: "coder",
      SVC_ENGINE_PAGES_PORT: String(pagesPort),
    },
  });
  const engine = await engineOf(berth);
  using load = startLoad(berth);
  for (let round = 0; round < 2; round++) {
    const before = childOf(berth.child, "serve");
    await using standby = serve(berth, "--standby");
    await until("the standby is ready", async () => reportOf(berth, "standby")?.isReady);
    assert.equal(reportOf(berth, "standby")?.pid, standby.pid);
    process.kill(before, "SIGTERM");
    await until("the gateway has drained", () => startTimeOf(before) === undefined);
    const after = await until("its successor is ready", async () => {
      const report = reportOf(berth, "gateway");
      return report?.isReady === true && report.pid !== before && report.pid;
    });
    assert.equal(after, childOf(berth.child, "serve"));
    process.kill(standby.pid, "SIGTERM");
    assert.equal(await standby.ended, 0, await standby.said());
    const said = await standby.said();
    assert.ok(said.includes(`the chat page listens on http://127.0.0.1:${chatPort}`), said);
    assert.ok(said.includes(`are at http://127.0.0.1:${pagesPort}/upstream/`), said);
  }
  const { sent, answered, streams, lost } = await load.end();
  assert.deepEqual(lost, []);
  assert.equal(answered, sent);
  assert.ok(sent > 100 && streams > 3, `${sent} requests, ${streams} streams`);
  assert.deepEqual(await engineOf(berth), engine);
});

it("a standby is refused beside a second standby and beside a Berth with another state directory", async () => {
  await using berth = await startUp();
  await using _standby = serve(berth, "--standby");
  await until("the standby is ready", async () => reportOf(berth, "standby")?.isReady);
  const elsewhere = { ...berth, env: { ...berth.env, SVC_STATE_DIR: `${berth.stateDir}-other` } };
  for (const refused of [serve(berth, "--standby"), serve(berth), serve(elsewhere, "--standby")]) {
    assert.equal(await refused.ended, 1);
    assert.match(await refused.said(), /port \d+ is taken/);
  }
  assert.equal((await chat(berth)).status, 200);
});
