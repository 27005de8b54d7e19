import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { readProc } from "../../src/lib/process-identity.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { berthProcess, type Ended } from "../support/command.ts";
import { until } from "../support/until.ts";
import { coder, engineOf, save } from "./coder.ts";

/** A command's end in the surroundings of a running Berth; its directory is called DIR. */
async function beside({ env, configDir }: RunningBerth, ...args: readonly string[]): Promise<Ended> {
  const ended = await berthProcess(args, { ...env, SVC_URL: "" });
  const anonymous = (text: string): string =>
    text.replaceAll(join(configDir, ".."), "DIR").replaceAll(/^\d\d:\d\d:\d\d/gm, "TIME");
  return { ...ended, stdout: anonymous(ended.stdout), stderr: anonymous(ended.stderr) };
}

it("berth operator --paused prints its plan, and does nothing", async () => {
  await using berth = await startBerth({ args: ["operator", "--paused"], prepare: save });
  await until("the operator runs", () => berth.log().includes("operator watches"));
  await using _gateway = await startBerth({ args: ["serve"], env: berth.env });
  await until("the gateway answers", async () => (await fetch(`${berth.url}/livez`)).ok);
  const { stdout } = await beside(berth, "slot", "plan", "coder");
  const steps = / {2}1\. lease: \d+ is free\n {2}2\. start main: [^\n]+\n {5}"?\/.+\/node"? /;
  assert.match(stdout, new RegExp(`^coder: \\w+: [^\\n]+\\n${steps.source}`));
  assert.equal((await berth.slot("coder"))["state"], "offline");
});

it("berth operator leaves engines to `berth down`, which is refused while it runs, as is another operator", async () => {
  await using berth = await startBerth({ args: ["operator"], prepare: save });
  await engineOf(berth);
  const running = `another operator (process ${berth.child.pid}) runs with the state directory DIR/state; stop it, or set SVC_STATE_DIR to another directory`;
  assert.deepEqual(await beside(berth, "down"), {
    code: 1,
    stdout: "",
    stderr: `operator.running: ${running}\nstop the operator or \`berth up\` first: it would start them again\n`,
  });
  assert.deepEqual(await beside(berth, "operator"), {
    code: 1,
    stdout: `TIME fatal operator ${running}; with --standby this one waits for its end\n`,
    stderr: "",
  });
  const args = ["operator", "--standby"];
  await using standby = await startBerth({ args, env: { ...berth.env, SVC_OPERATOR_PORT: "0" } });
  await until("it stands by", () => standby.log().includes("the operator that leads is process"));
  assert.equal(await standby.stop("SIGTERM"), 0);
  assert.equal(await berth.stop("SIGTERM"), 0);
  assert.deepEqual(await beside(berth, "down"), { code: 0, stdout: "stopped coder\n", stderr: "" });
});

it("berth operator ends at once while an engine needs time to end, and leaves that engine to the next operator", async () => {
  const stubborn = coder("stop_seconds = 3600\n", "--ignore-term");
  await using berth = await startBerth({ args: ["operator"], prepare: (dirs) => save(dirs, stubborn) });
  const { pid } = await engineOf(berth);
  try {
    await save(berth, `enabled = false\n${stubborn}`);
    const said = join(berth.stateDir, "logs/coder.main.log");
    await until("it is being ended", async () => (await readFile(said, "utf8")).includes("SIGTERM"));
    assert.equal(await berth.stop("SIGTERM"), 0);
    assert.ok(process.kill(pid, 0), "it runs");
  } finally {
    process.kill(pid, "SIGKILL");
    await until("it has ended", () => readProc(pid) === undefined);
  }
});
