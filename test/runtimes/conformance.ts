import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Observed, Workload } from "../../src/api/workload.ts";
import type { LogLine, TailOptions } from "../../src/runtimes/logs/logs.ts";
import type { Runtime } from "../../src/runtimes/runtime.ts";
import { freePort } from "../support/free-port.ts";
import { until } from "../support/until.ts";
import { later } from "../support/later.ts";

/**
 * The definition of a runtime: every one passes this suite. A site is one installation of Berth on a machine of its
 * own; disposing of it ends whatever is left.
 */
export interface Site extends AsyncDisposable {
  /** Engines share the ports of one machine; else each has an address of its own. */
  readonly hasHostPorts: boolean;
  /** The lines of a slot's engines, as the gateway shows them. */
  logs(slot: string, options: TailOptions): AsyncIterable<LogLine>;
  /** A runtime object of this installation, as a (re)started operator opens it. Only one at a time is open. */
  open(): Promise<Runtime>;
  /** One of another installation on the same machine. */
  openNeighbour(): Promise<Runtime>;
  /** A workload that runs the fake engine with these flags on that port. */
  workload(port: number, flags?: readonly string[]): Workload;
  /** A workload whose program does not exist. */
  missingProgram(port: number): Workload;
  kill(observed: Observed, signal: NodeJS.Signals): Promise<void>;
  /** How many live processes belong to this installation, found without the runtime's own means. */
  population(): Promise<number>;
}

const main = { role: "main", ordinal: 0 } as const;

export function runtimeConformance(
  name: string,
  openSite: () => Promise<Site>,
  { concurrency = 1 }: { readonly concurrency?: number } = {},
): void {
  /** Disposes of the runtimes first, then of the site, also when the test fails. */
  const scene = async (
    run: (site: Site, runtime: Runtime, port: number, stack: AsyncDisposableStack) => Promise<void>,
  ): Promise<void> => {
    await using stack = new AsyncDisposableStack();
    const site = stack.use(await openSite());
    await run(site, stack.use(await site.open()), await freePort(), stack);
  };
  const it = (title: string, run: Parameters<typeof scene>[0]): void => {
    test(title, { timeout: 300_000 }, async (_context: TestContext) => await scene(run));
  };

  describe(`the ${name} runtime`, { concurrency }, () => {
    it("knows nothing of a slot that never ran, and has no lines of it", async (site, runtime) => {
      assert.deepEqual(await runtime.observe("primary"), []);
      assert.deepEqual(await runtime.list(), []);
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.deepEqual(await collect(site.logs("primary", { tail: 10, follow: false })), []);
    });

    it("runs a workload, and says when its own process listens", async (site, runtime, port) => {
      const workload = site.workload(port);
      const began = Date.now();
      await runtime.ensure(workload);
      const observed = await listening(runtime);
      const { begunAt: _later, ...seen } = observed;
      assert.deepEqual(
        { ...seen, id: "an id", startedAt: "a date" },
        {
          slot: workload.slot,
          role: workload.role,
          ordinal: 0,
          hash: workload.hash,
          host: site.hasHostPorts ? "127.0.0.1" : observed.host,
          port: workload.port,
          phase: "running",
          isListening: true,
          isPortTaken: false,
          id: "an id",
          startedAt: "a date",
        },
      );
      // The kernel gives the start of a process in hundredths of a second since boot, and the boot time in seconds.
      const startedAt = observed.startedAt.getTime();
      assert.ok(startedAt > began - 5000 && startedAt < Date.now() + 5000, observed.startedAt.toISOString());
      assert.deepEqual(await runtime.list(), [workload.slot]);
      assert.equal((await fetch(`${urlOf(observed)}/health`)).status, 200);
    });

    it("does not call an engine listening before it is", async (site, runtime, port) => {
      await runtime.ensure(site.workload(port, ["--start-delay-ms", "60000"]));
      const { phase, isListening, isPortTaken } = await onlyOne(runtime);
      assert.deepEqual([phase, isListening, isPortTaken], ["running", false, false]);
    });

    it("leaves alone what runs with the same hash, and refuses another", async (site, runtime, port) => {
      const workload = site.workload(port);
      await runtime.ensure(workload);
      const first = await onlyOne(runtime);
      await runtime.ensure(workload);
      assert.deepEqual((await onlyOne(runtime)).id, first.id);
      // A process that is about to become the engine's program has neither command line nor environment for a moment.
      await listening(runtime);
      assert.equal(await site.population(), 1);
      await assert.rejects(runtime.ensure({ ...workload, hash: "another" }), /still runs/);
      assert.deepEqual((await onlyOne(runtime)).id, first.id);
    });

    it("keeps roles and replicas of a slot apart: each is observed, adopted and ended alone", async (site, first, port) => {
      const ports = [port, await freePort(), await freePort()];
      for (const [ordinal, each] of ports.entries()) await first.ensure({ ...site.workload(each), ordinal });
      await first.ensure({ ...site.workload(await freePort()), role: "rerank", hash: "rerank-hash" });
      const replicas = async (runtime: Runtime): Promise<readonly Observed[]> =>
        (await runtime.observe("primary")).filter(({ role }) => role === "main");
      await until("all listen", async () => (await replicas(first)).every(({ isListening }) => isListening));
      const before = await replicas(first);
      assert.deepEqual(
        before.map(({ ordinal, port: at }) => [ordinal, at]),
        ports.map((at, ordinal) => [ordinal, site.workload(at).port]),
      );
      const rerank = (await first.observe("primary")).find(({ role }) => role === "rerank");
      const [, one] = before;
      assert.ok(one !== undefined && rerank !== undefined);
      await site.kill(one, "SIGKILL");
      await until("one has ended", async () => (await replicas(first))[1]?.phase === "exited");
      assert.deepEqual(
        (await replicas(first)).map(({ phase }) => phase),
        ["running", "exited", "running"],
      );
      await first[Symbol.asyncDispose]();
      await using second = await site.open();
      for (const ordinal of [1, 0]) await second.remove("primary", { role: "main", ordinal }, { stopSeconds: 10 });
      assert.deepEqual(
        (await replicas(second)).map(({ ordinal, id }) => ({ ordinal, id })),
        [{ ordinal: 2, id: before[2]?.id }],
      );
      await second.remove("primary", { role: "main", ordinal: 2 }, { stopSeconds: 10 });
      assert.deepEqual((await onlyOne(second)).id, rerank.id);
      await second.remove("primary", undefined, { stopSeconds: 10 });
      assert.equal(await site.population(), 0);
    });

    it("leaves engines running, and its successor lists, adopts and ends them", async (site, first, port) => {
      const workload = site.workload(port);
      await first.ensure(workload);
      const before = await listening(first);
      await first[Symbol.asyncDispose]();
      await using second = await site.open();
      assert.deepEqual(await second.list(), ["primary"]);
      assert.deepEqual(await onlyOne(second), before);
      await second.ensure(workload);
      assert.deepEqual((await onlyOne(second)).id, before.id);
      assert.equal(await site.population(), 1);
      await second.remove("primary", main, { stopSeconds: 10 });
      assert.deepEqual([await site.population(), await second.list()], [0, []]);
    });

    it("has removed an engine when remove resolves, and may start the next", async (site, runtime, port) => {
      await runtime.ensure(site.workload(port));
      await listening(runtime);
      await runtime.remove("primary", main, { stopSeconds: 10 });
      assert.equal(await site.population(), 0);
      assert.deepEqual(await runtime.observe("primary"), []);
      assert.deepEqual(await runtime.list(), []);
      await runtime.remove("primary", main, { stopSeconds: 10 });
      await runtime.ensure({ ...site.workload(port), hash: "next" });
      await listening(runtime);
    });

    for (const fork of ["--fork-child", "--fork-session"]) {
      it(`ends an engine that ignores TERM, with its ${fork} child`, async (site, runtime, port) => {
        await runtime.ensure(site.workload(port, ["--ignore-term", fork]));
        await until("both run", async () => (await site.population()) === 2);
        await listening(runtime);
        const began = performance.now();
        await runtime.remove("primary", main, { stopSeconds: 0.3 });
        assert.ok(performance.now() - began >= 300, "it had its time to stop");
        assert.equal(await site.population(), 0);
      });
    }

    it("kills at once when the signal aborts", async (site, runtime, port) => {
      await runtime.ensure(site.workload(port, ["--ignore-term"]));
      await listening(runtime);
      const hurry = new AbortController();
      const removed = runtime.remove("primary", main, { stopSeconds: 3600, signal: hurry.signal });
      hurry.abort();
      await removed;
      assert.equal(await site.population(), 0);
    });

    it("reports the exit code until the engine is removed, or another is started over it", async (site, runtime, port) => {
      await runtime.ensure(site.workload(port));
      await say(await listening(runtime), "error loading model");
      const url = urlOf(await onlyOne(runtime));
      await fetch(`${url}/double/exit`, { method: "POST", body: "7" }).catch(() => undefined);
      const { exit } = await exited(runtime);
      assert.deepEqual([exit?.reason, exit?.code], ["Exited", 7]);
      assert.match(exit?.message ?? "", /\b7\b/);
      assert.deepEqual((await onlyOne(runtime)).exit, exit);
      assert.deepEqual(await runtime.list(), ["primary"]);
      await runtime.ensure({ ...site.workload(port, ["--exit-code", "3"]), hash: "mended" });
      const again = await exited(runtime);
      assert.deepEqual([again.hash, again.exit?.code], ["mended", 3]);
      await runtime.remove("primary", undefined, { stopSeconds: 1 });
      assert.deepEqual(await runtime.observe("primary"), []);
    });

    it("reports an engine that was killed soon, with the signal, to those who still watch", async (site, runtime, port) => {
      const [told, untold]: [string[], string[]] = [[], []];
      (await runtime.watch((slot) => untold.push(slot)))[Symbol.dispose]();
      await runtime.ensure(site.workload(port));
      await listening(runtime);
      using _watch = await runtime.watch((slot) => told.push(slot));
      await site.kill(await onlyOne(runtime), "SIGKILL");
      await until("it is told", () => told.length > 0);
      const { exit } = await exited(runtime);
      assert.deepEqual([exit?.reason, exit?.signal], ["Signalled", "SIGKILL"]);
      assert.deepEqual([new Set(told), untold], [new Set(["primary"]), []]);
    });

    it("reports an adopted engine that was killed soon", async (site, first, port) => {
      await first.ensure(site.workload(port));
      await listening(first);
      await first[Symbol.asyncDispose]();
      await using second = await site.open();
      const told: string[] = [];
      using _watch = await second.watch((slot) => told.push(slot));
      await site.kill(await onlyOne(second), "SIGKILL");
      await until("it is told", () => told.length > 0);
      assert.ok((await exited(second)).exit?.message);
    });

    it("says which program cannot be started", async (site, runtime, port) => {
      const workload = site.missingProgram(port);
      await runtime.ensure(workload);
      const { exit } = await exited(runtime);
      assert.equal(exit?.reason, "StartFailed");
      assert.match(exit.message, new RegExp(workload.command[0]?.split("/").at(-1) ?? "never"));
      await runtime.remove("primary", undefined, { stopSeconds: 0 });
      assert.deepEqual(await runtime.observe("primary"), []);
    });

    it("shows the last lines, and follows the new ones across a restart", async (site, runtime, port) => {
      await runtime.ensure(site.workload(port));
      await say(await listening(runtime), "one", "two", "three");
      const tail = await until("the last lines are there", async () => {
        const lines = await collect(site.logs("primary", { tail: 2, follow: false }));
        return lines.at(-1) === "three" && lines;
      });
      assert.deepEqual(tail, ["two", "three"]);
      const left = new AbortController();
      const seen: string[] = [];
      const following = later(follow(site.logs("primary", { tail: 1, follow: true, signal: left.signal }), seen));
      await until("the follower has begun", () => seen.includes("three"));
      await say(await onlyOne(runtime), "four");
      await until("the new line came", () => seen.includes("four"));
      await runtime.remove("primary", main, { stopSeconds: 10 });
      await runtime.ensure(site.workload(port));
      await say(await listening(runtime), "five");
      await until("the next engine's line came", () => seen.includes("five"));
      left.abort();
      await following;
      assert.deepEqual(
        seen.filter((line) => /^(two|three|four|five)$/.test(line)),
        ["three", "four", "five"],
      );
    });

    it("ignores what belongs to another installation", async (site, runtime, port, stack) => {
      const neighbour = stack.use(await site.openNeighbour());
      await runtime.ensure(site.workload(port));
      await listening(runtime);
      assert.deepEqual(await neighbour.observe("primary"), []);
      assert.deepEqual(await neighbour.list(), []);
      await neighbour.remove("primary", undefined, { stopSeconds: 0 });
      assert.equal((await onlyOne(runtime)).phase, "running");
      if (!site.hasHostPorts) return;
      // On the same port: to the neighbour, ours is a stranger.
      await neighbour.ensure(site.workload(port, ["--start-delay-ms", "60000"]));
      const seen = await onlyOne(neighbour);
      assert.deepEqual([seen.isListening, seen.isPortTaken], [false, true]);
      await neighbour.remove("primary", undefined, { stopSeconds: 10 });
      assert.equal((await onlyOne(runtime)).isListening, true);
    });
  });
}

async function onlyOne(runtime: Runtime): Promise<Observed> {
  const observed = await runtime.observe("primary");
  const [first] = observed;
  assert.ok(first !== undefined && observed.length === 1, `one process, not ${observed.length}`);
  return first;
}

async function listening(runtime: Runtime): Promise<Observed> {
  return await until("it listens", async () => {
    const observed = await onlyOne(runtime);
    return observed.isListening && observed;
  });
}

async function exited(runtime: Runtime): Promise<Observed> {
  return await until("it has exited", async () => {
    const observed = await onlyOne(runtime);
    return observed.phase === "exited" && observed;
  });
}

async function say(observed: Observed, ...lines: readonly string[]): Promise<void> {
  for (const body of lines) await fetch(`${urlOf(observed)}/double/log`, { method: "POST", body });
}

function urlOf({ host, port }: Observed): string {
  return `http://${host}:${port}`;
}

async function collect(lines: AsyncIterable<LogLine>): Promise<string[]> {
  const seen: string[] = [];
  await follow(lines, seen);
  return seen;
}

async function follow(lines: AsyncIterable<LogLine>, seen: string[]): Promise<void> {
  for await (const { line } of lines) seen.push(line);
}
