import assert from "node:assert/strict";
import { watch } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { startTimeOf } from "../../src/lib/process-identity.ts";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { idleProcessMs } from "../support/pace.ts";
import { readPublished } from "../support/published.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const command = [process.execPath, "--disable-warning=ExperimentalWarning", engine];
const manifest = (more = "", words: readonly string[] = []): string =>
  `engine = "custom"\ncommand = ${JSON.stringify([...command, ...words])}\n${more}`;

/** An engine that the reboot ended. */
const gone = { role: "main", port: 9, endpoint: "http://127.0.0.1:9", pid: 2 ** 22 };

/** The word for how soon another operator acts, on a machine with time for it: as many milliseconds. */
const takeOverMs = (idleMs: number): number => 5000 + 10 * idleMs;

interface Pair extends AsyncDisposable {
  readonly first: RunningBerth;
  readonly second: RunningBerth;
  save(text: string): Promise<void>;
}

async function pair(): Promise<Pair> {
  await using stack = new AsyncDisposableStack();
  const prepare = async ({ configDir }: { configDir: string }): Promise<void> =>
    await writeFile(join(configDir, "slots/coder.toml"), manifest());
  const first = stack.use(await startBerth({ args: ["operator"], prepare }));
  stack.defer(async () => await endEngines(first));
  await until("the first leads", async () => (await ready(first)) === "ok");
  const { SVC_OPERATOR_PORT: _own, ...shared } = first.env;
  const second = stack.use(await startBerth({ args: ["operator", "--standby"], env: shared }));
  // A test may fail while it has stopped the first, which would then not end.
  stack.defer(() => void first.child.kill("SIGCONT"));
  await until("the second stands by", async () => (await ready(second)) === "standby");
  // A standby reads the name of the installation before it logs who leads.
  await until("the second knows who leads", () => second.log().includes("the operator that leads is process"));
  await pidOf(first);
  const owned = stack.move();
  const save = (text: string): Promise<void> => writeFile(join(first.configDir, "slots/coder.toml"), text);
  return { first, second, save, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Ends the operator too: `berth down` refuses while one runs. */
async function endEngines(berth: RunningBerth): Promise<void> {
  await berth.stop("SIGTERM");
  await using down = await startBerth({ args: ["down"], env: berth.env });
  assert.equal(await down.ended, 0, down.log());
}

async function ready({ operatorUrl }: RunningBerth): Promise<string> {
  return (await (await fetch(`${operatorUrl}/readyz`)).text()).trim();
}

/** Of the slot's engine, once it is ready. Both operators share the directories of the first. */
async function pidOf({ stateDir }: RunningBerth, isWanted: (pid: number) => boolean = () => true): Promise<number> {
  return await until("the engine is ready", async () => {
    const slot = await readPublished(stateDir, "coder");
    const pid = slot?.status.state === "ready" ? slot.status.processes[0]?.pid : undefined;
    return pid !== undefined && isWanted(pid) ? pid : undefined;
  });
}

async function leader({ stateDir }: RunningBerth): Promise<number> {
  return publishedOperatorSchema.parse(JSON.parse(await readFile(join(stateDir, "operator.json"), "utf8"))).pid;
}

async function idleSeconds({ stateDir }: RunningBerth): Promise<number | undefined> {
  return (await readPublished(stateDir, "coder"))?.spec.idleSeconds;
}

/**
 * Resolves once `takeOver` was in time with one of three fresh pairs: a machine that does other things halts one of them
 * now and then.
 */
async function inTime(takeOver: (both: Pair) => Promise<{ tookMs: number; boundMs: number }>): Promise<void> {
  const told: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    await using both = await pair();
    const { tookMs, boundMs } = await takeOver(both);
    if (tookMs < boundMs) return;
    told.push(`${tookMs} ms, of ${boundMs}`);
  }
  assert.fail(told.join("; "));
}

describe("a standby", () => {
  it("leads within 5 s of the death of the operator that led, acts on the edit made meanwhile, and restarts no engine", async (t) => {
    await inTime(async (both) => {
      const { first, second } = both;
      const before = await pidOf(first);
      first.child.kill("SIGKILL");
      const killedMs = performance.now();
      const idle = idleProcessMs();
      await both.save(manifest("idle_seconds = 77\n"));
      await until("the second leads", async () => (await leader(first)) === second.child.pid);
      const tookMs = performance.now() - killedMs;
      const boundMs = takeOverMs(await idle);
      await until("an edit has converged", async () => (await idleSeconds(first)) === 77);
      const convergedMs = performance.now() - killedMs;
      t.diagnostic(
        `${tookMs.toFixed(0)} ms after SIGKILL the second led, after ${convergedMs.toFixed(0)} ms the edit held`,
      );
      await until("it is ready", async () => (await ready(second)) === "ok");
      assert.equal(await pidOf(first), before);
      assert.equal((await readPublished(first.stateDir, "coder"))?.status.restarts, 0);
      return { tookMs, boundMs };
    });
  });

  it("takes over at once when the leading operator is asked to stop, which leaves its engines", async () => {
    await inTime(async ({ first, second }) => {
      const before = await pidOf(first);
      assert.equal(await first.stop("SIGTERM"), 0);
      const stoppedMs = performance.now();
      const idle = idleProcessMs();
      await until("the second leads", async () => (await leader(first)) === second.child.pid);
      const tookMs = performance.now() - stoppedMs;
      const boundMs = takeOverMs(await idle);
      assert.equal(await pidOf(first), before);
      return { tookMs, boundMs };
    });
  });

  it("takes over from an operator that hangs for longer than its lease, which does nothing more when it continues", async (t) => {
    await using both = await pair();
    const { first, second } = both;
    const before = await pidOf(first);
    first.child.kill("SIGSTOP");
    const stoppedMs = performance.now();
    await until("the second leads", async () => (await leader(first)) === second.child.pid);
    t.diagnostic(`the second led ${(performance.now() - stoppedMs).toFixed(0)} ms after SIGSTOP`);
    assert.equal(await pidOf(first), before);
    // Another engine: the first knows of an engine that has ended, and would start one.
    await both.save(manifest("", ["--tokens", "9"]));
    const after = await pidOf(first, (pid) => pid !== before);
    const record = join(first.stateDir, "processes/coder.main.json");
    const written = await readFile(record, "utf8");
    const said = first.log().length;
    first.child.kill("SIGCONT");
    assert.equal(await first.ended, 1);
    assert.match(first.log().slice(said), /taken by another operator/);
    assert.equal(await pidOf(first), after);
    assert.equal(await readFile(record, "utf8"), written);
    assert.equal(await leader(first), second.child.pid);
  });

  it("leads with a new state directory when the directory is deleted, and starts the engine again", async () => {
    await using both = await pair();
    const { first, second } = both;
    const before = await pidOf(first);
    const instance = await readFile(join(first.stateDir, "instance"), "utf8");
    // In one step: the operator that leads would write into a directory that is half deleted.
    const deleted = `${first.stateDir}-deleted`;
    await rename(first.stateDir, deleted);
    await rm(deleted, { recursive: true, maxRetries: 50, retryDelay: 10 });
    await until("the second leads", async () => (await leader(first).catch(() => 0)) === second.child.pid);
    assert.equal(await first.ended, 1);
    assert.equal(await readFile(join(first.stateDir, "instance"), "utf8"), instance);
    // Without its record no engine is adopted (docs/adr/0006-adoption.md).
    await pidOf(first, (pid) => pid !== before);
    await until("the earlier engine has ended", () => startTimeOf(before) === undefined);
    assert.doesNotMatch(second.log(), /^\s+at /m);
  });

  it("keeps the name of the installation when the directory is deleted while the leading operator hangs", async () => {
    await using both = await pair();
    const { first, second } = both;
    const before = await pidOf(first);
    const instance = await readFile(join(first.stateDir, "instance"), "utf8");
    first.child.kill("SIGSTOP");
    const deleted = `${first.stateDir}-deleted`;
    await rename(first.stateDir, deleted);
    await rm(deleted, { recursive: true, maxRetries: 50, retryDelay: 10 });
    await until("the second leads", async () => (await leader(first).catch(() => 0)) === second.child.pid);
    assert.equal(await readFile(join(first.stateDir, "instance"), "utf8"), instance);
    const after = await pidOf(first, (pid) => pid !== before);
    await until("the earlier engine has ended", () => startTimeOf(before) === undefined);
    first.child.kill("SIGCONT");
    assert.equal(await first.ended, 1);
    assert.equal(await pidOf(first), after);
  });

  it("must be requested: a second operator without the option gets an error, and ends", async () => {
    await using both = await pair();
    const { SVC_OPERATOR_PORT: _own, ...shared } = both.first.env;
    await using third = await startBerth({ args: ["operator"], env: shared });
    assert.equal(await third.ended, 1);
    assert.match(third.log(), /another operator \(process \d+\) runs with the state directory .*--standby/);
    assert.equal(await both.second.stop("SIGTERM"), 0);
  });
});

describe("an operator after a reboot", () => {
  it("publishes that engines have ended before its first heartbeat, after which gateways trust the published state", async () => {
    const prepare = async ({ configDir }: { configDir: string }): Promise<void> =>
      await writeFile(join(configDir, "slots/coder.toml"), manifest());
    await using first = await startBerth({ args: ["operator"], prepare });
    await pidOf(first);
    assert.equal(await first.stop("SIGTERM"), 0);
    await endEngines(first);
    // As the reboot left it.
    const { stateDir } = first;
    const operator = join(stateDir, "operator.json");
    const record = publishedOperatorSchema.parse(JSON.parse(await readFile(operator, "utf8")));
    await writeFile(operator, JSON.stringify({ ...record, bootId: "before" }));
    const slot = join(stateDir, "slots/coder.json");
    const ended = (await readPublished(stateDir, "coder")) ?? assert.fail();
    const status = { ...ended.status, state: "ready", processes: [{ ...gone, isReady: true }] };
    await writeFile(slot, JSON.stringify({ ...ended, status }));
    const written: string[] = [];
    using stack = new DisposableStack();
    for (const directory of [stateDir, join(stateDir, "slots")]) {
      const watcher = watch(directory, (_, file) => written.push(file ?? ""));
      stack.defer(() => watcher.close());
    }
    const { SVC_OPERATOR_PORT: _own, ...env } = first.env;
    await using next = await startBerth({ args: ["operator", "--stop-engines"], env });
    await until("it has settled", () => /operator watches/.test(next.log()));
    await until("both files are told", () => written.includes("coder.json") && written.includes("operator.json"));
    assert.ok(written.indexOf("coder.json") < written.indexOf("operator.json"), written.join(" "));
  });
});
