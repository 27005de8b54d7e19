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
import { runBerth } from "../support/command.ts";
import { envelopeOf } from "../support/envelope.ts";
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

/** How often the slot has become ready, as the operator counts. */
async function timesReady({ operatorUrl }: RunningBerth): Promise<number> {
  const page = await (await fetch(`${operatorUrl}/metrics`)).text();
  const counts = page.matchAll(/^berth_slot_transitions_total\{slot="coder",[^}]*to="ready"\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
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

/** Berth with the slot `coder`, whose state directory is a disk of its own; undefined where this user may mount none. */
async function onSmallDisk(stack: AsyncDisposableStack): Promise<RunningBerth | undefined> {
  let disk: AsyncDisposable | undefined;
  const started: RunningBerth[] = [];
  // Disposal runs in reverse: the processes end first, then the disk is unmounted, then the directory is deleted.
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
  return disk === undefined ? undefined : berth;
}

it("engines are kept, and an operator starts again, while the disk of the state directory is full", async (t) => {
  await using stack = new AsyncDisposableStack();
  const berth = await onSmallDisk(stack);
  if (berth === undefined) {
    t.diagnostic(
      "this user may mount no disk: test/operator/report/written.test.ts has the same with a disk that only says so",
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
  await until("it watches", () => berth.log().split("operator watches").length >= 3);
  await killed(berth);
  process.kill(childOf(berth.child, "serve"), "SIGKILL");
  await until("another gateway listens", () => berth.log().split("gateway listens").length >= 3);
  assert.equal(await answer(berth), 200);
  assert.equal(berth.child.exitCode, null);
  await rm(filler);
  await killed(berth);
});

it("a write of the API is refused with the directory whose disk is full, and the command says what to do", async (t) => {
  await using stack = new AsyncDisposableStack();
  const berth = await onSmallDisk(stack);
  if (berth === undefined) {
    t.diagnostic("this user may mount no disk: test/gateway/http/disk-failure.test.ts has the words");
    return;
  }
  await writeFile(join(berth.configDir, "slots/coder.toml"), `${coder}group = "gpu"\n`);
  await until("the group is known", async () => (await fetch(`${berth.url}/api/groups/gpu`)).status === 200);
  const chat = {
    id: "aaaaaaaa",
    title: "a conversation",
    model: "coder",
    updated_at: "2026-01-01T00:00:00Z",
    parameters: { system: "", temperature: "", maxTokens: "" },
    messages: [{ role: "user", content: "hello" }],
  };
  const writes = [
    ["POST", "/api/groups/gpu/lend", { seconds: 60 }, "groups"],
    ["POST", "/api/models/pull", { source: "https://models.invalid/1.gguf" }, "pulls"],
    ["PUT", `/api/conversations/${chat.id}`, chat, "conversations"],
  ] as const;
  for (const [method, path, body, directory] of writes) {
    const headers = { "content-type": "application/json" };
    // The operator may replace a file meanwhile, and so leave room for a small one.
    let fillers = 0;
    const refused = await until(`${path} is refused`, async () => {
      fill(join(berth.stateDir, `filler-${directory}-${(fillers += 1)}`));
      // Another file each time: who asks again for one that is fetched already has nothing written.
      const asked = JSON.stringify(body).replace("/1.gguf", `/${fillers}.gguf`);
      const answered = await fetch(`${berth.url}${path}`, { method, headers, body: asked });
      return answered.ok ? undefined : answered;
    });
    const { error } = await envelopeOf(refused);
    assert.deepEqual([path, refused.status, error.code], [path, 503, "system.overloaded"]);
    assert.match(error.message, new RegExp(`make room on the disk of ${berth.stateDir}/${directory}(/[0-9a-f]+)?$`));
  }
  let fillers = 0;
  const { code, stderr } = await until("the command is refused", async () => {
    fill(join(berth.stateDir, `filler-${(fillers += 1)}`));
    const ended = await runBerth(["lend", "1h", "--group", "gpu"], { SVC_URL: berth.url });
    return ended.code === 0 ? undefined : ended;
  });
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `system.overloaded: there is no disk space to do this: make room on the disk of ${berth.stateDir}/groups\n` +
      "delete some files on the disk of that directory, or enlarge it\n",
  );
});

it("no request for an edited slot is answered 404 while the disk of the state directory is full", async (t) => {
  await using stack = new AsyncDisposableStack();
  const berth = await onSmallDisk(stack);
  if (berth === undefined) {
    t.diagnostic("this user may mount no disk: test/gateway/routing/cache-sync.test.ts has the same with a double");
    return;
  }
  await berth.state("coder", "ready", "idle");
  fill(join(berth.stateDir, "filler"));
  const answers = new Map<number, number>();
  let isOver = false;
  const clients = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      const status = await answer(berth);
      answers.set(status, (answers.get(status) ?? 0) + 1);
    }
  });
  for (const size of [2000, 6000, 12_000]) {
    const before = await timesReady(berth);
    const edited = `${coder}\n[env]\nPADDING = "${"x".repeat(size)}"\n`;
    await writeFile(join(berth.configDir, "slots/coder.toml"), edited);
    await until("an engine with the edit is ready", async () => (await timesReady(berth)) > before);
  }
  isOver = true;
  await Promise.all(clients);
  t.diagnostic([...answers].map(([status, count]) => `${count} answered ${status}`).join(", "));
  assert.equal(answers.get(404), undefined);
});
