import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { publishedOperatorSchema } from "../../src/api/status.ts";
import { errorCode } from "../../src/lib/error-code.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { childOf } from "../support/child-of.ts";
import { until } from "../support/until.ts";

const engine = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));
const coder = `engine = "custom"
command = [${JSON.stringify(process.execPath)}, "--disable-warning=ExperimentalWarning", ${JSON.stringify(engine)}]
`;

/** A disk of its own for the state directory, which is to be full. Undefined where this user may mount none. */
async function smallDisk(path: string): Promise<AsyncDisposable | undefined> {
  await mkdir(path, { recursive: true });
  const { status } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs", path]);
  if (status !== 0) return undefined;
  return {
    [Symbol.asyncDispose]: () =>
      until("it is unmounted", () => spawnSync("umount", [path]).status === 0).then(() => undefined),
  };
}

function fill(path: string): void {
  for (const size of [65_536, 4096, 1]) {
    try {
      for (;;) appendFileSync(path, Buffer.alloc(size, "x"));
    } catch (error) {
      assert.equal(errorCode(error), "ENOSPC");
    }
  }
}

async function answer({ url }: RunningBerth): Promise<number> {
  const body = JSON.stringify({ model: "coder", messages: [{ role: "user", content: "hello" }] });
  const headers = { "content-type": "application/json" };
  return (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).status;
}

function pidOf(slot: Record<string, unknown>): number | undefined {
  const { processes } = slot;
  const first: unknown = Array.isArray(processes) ? processes[0] : undefined;
  return typeof first === "object" && first !== null && "pid" in first ? Number(first.pid) : undefined;
}

function operatorPid({ stateDir }: RunningBerth): number {
  return publishedOperatorSchema.parse(JSON.parse(readFileSync(join(stateDir, "operator.json"), "utf8"))).pid;
}

/** Kills the engine; resolves once the gateway has another one that is ready. */
async function killed(berth: RunningBerth): Promise<void> {
  const before = pidOf(await berth.state("coder", "ready", "idle"));
  assert.ok(before !== undefined);
  process.kill(before, "SIGKILL");
  await until("another engine is ready", async () => {
    const slot = await berth.slot("coder");
    const pid = pidOf(slot);
    return pid !== undefined && pid !== before && ["ready", "idle"].includes(String(slot["state"]));
  });
  assert.equal(await answer(berth), 200);
}

it("engines are kept, and an operator starts again, while the disk of the state directory is full", async (t) => {
  let disk: AsyncDisposable | undefined;
  const started: RunningBerth[] = [];
  // In this order: it ends, its disk goes, its directory goes.
  await using stack = new AsyncDisposableStack();
  stack.defer(async () => await started[0]?.[Symbol.asyncDispose]());
  const berth = await startBerth({
    prepare: async ({ configDir }) => {
      await writeFile(join(configDir, "slots/coder.toml"), coder);
      disk = await smallDisk(join(configDir, "../state"));
      if (disk !== undefined) stack.use(disk);
    },
  });
  started.push(berth);
  stack.defer(async () => void (await berth.stop("SIGINT")));
  if (disk === undefined) {
    t.diagnostic(
      "this user may mount no disk: test/operator/written.test.ts has the same with a disk that only says so",
    );
    return;
  }
  await berth.state("coder", "ready", "idle");
  const filler = join(berth.stateDir, "filler");
  fill(filler);
  await killed(berth);
  const first = operatorPid(berth);
  process.kill(first, "SIGKILL");
  await until("another operator runs", () => operatorPid(berth) !== first);
  await until("it watches", () => berth.log().split("operator watches").length === 3);
  await killed(berth);
  process.kill(childOf(berth.child, "serve"), "SIGKILL");
  await until("another gateway listens", () => berth.log().split("gateway listens").length === 3);
  assert.equal(await answer(berth), 200);
  assert.equal(berth.child.exitCode, null);
  await rm(filler);
  await killed(berth);
});
