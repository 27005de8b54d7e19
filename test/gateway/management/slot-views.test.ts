import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Step } from "../../../src/api/plan.ts";
import type { SlotStatus } from "../../../src/api/status.ts";
import { planView } from "../../../src/gateway/management/views.ts";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { publishedSlot } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { startGateway } from "../auth/gateway.ts";
import { site, type Site } from "./fixture.ts";

const compute = { devices: ["CUDA0"], layersOffloaded: 29, layersTotal: 33, buffers: [{ device: "CUDA0", bytes: 9 }] };
const memory = { hostBytes: 7, devices: [{ id: "0000:00:06.0", bytes: 9 }] };

const hoursAgo = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString();
/** It failed long ago, three times in a night, and has recovered. */
const failedAt = [25, 8, 7, 6].map(hoursAgo);
const [, since, , time] = failedAt;
const transitions = failedAt.flatMap((at, nth): SlotStatus["transitions"] => [
  { at, from: "ready", to: "error", reason: "Exited", message: `exit code ${nth}` },
  { at, from: "error", to: "starting", reason: "Starting", message: "it is started" },
]);

describe("the view of a slot", () => {
  let at: Site;
  before(async () => {
    const startedAt = new Date(Date.now() - process.uptime() * 1000).toISOString();
    const running = (role: "main" | "rerank", more: object): SlotStatus["processes"][number] => ({
      role,
      ordinal: 0,
      host: "127.0.0.1",
      port: 1,
      endpoint: "http://127.0.0.1:1",
      isReady: true,
      startedAt,
      ...more,
    });
    const own = { pid: process.pid };
    const holding = (...processes: SlotStatus["processes"]) => ({ state: "ready" as const, status: { processes } });
    at = await site({
      slots: {
        primary: {
          state: "ready",
          status: { compute, memory, readySince: new Date(Date.now() + 3600_000).toISOString(), transitions },
        },
        one: holding(running("main", own)),
        two: holding(running("main", own), running("rerank", own)),
        // The pid of another process, in another namespace perhaps.
        coder: holding(running("main", { pid: 1 })),
        boxed: holding(running("main", { containerId: "0123" })),
      },
    });
  });
  after(() => at[Symbol.asyncDispose]());

  it("has its engine's devices and memory, and null where they are unknown", async () => {
    assert.partialDeepStrictEqual(await at.got("/api/slots/primary"), {
      compute: { devices: ["CUDA0"], layers_offloaded: 29, layers_total: 33, buffers: compute.buffers },
      memory: { host_bytes: 7, devices: memory.devices },
      // It became ready later than the clock is now.
      uptime_seconds: 0,
    });
    assert.partialDeepStrictEqual(await at.got("/api/slots/embed"), { compute: null, memory: null });
  });

  it("has its failures of the last day, and null where there are none", async () => {
    const { recent_failures: recent } = await at.got("/api/slots/primary");
    assert.deepEqual(recent, { count: 3, since, time, reason: "Exited", message: "exit code 3" });
    assert.equal((await at.got("/api/slots/embed"))["recent_failures"], null);
  });

  it("has the sum of its processes' memory, and null where that is unknown", async () => {
    const bytes = async (name: string): Promise<unknown> => (await at.got(`/api/slots/${name}`))["memory_bytes"];
    const [one, two] = [Number(await bytes("one")), Number(await bytes("two"))];
    assert.ok(one > 1024 ** 2 && two > 1.5 * one && two < 3 * one, `${two} of twice ${one}`);
    assert.deepEqual([await bytes("coder"), await bytes("boxed"), await bytes("embed")], [null, null, null]);
    await at.publishOperator({ heartbeat: new Date(Date.now() - 60_000).toISOString() });
    await until("the operator is lost", async () => (await bytes("one")) === null);
  });
});

it("the text of a plan says in how many seconds a step is due", () => {
  const time = (ms: number): string => new Date(1_000_000 + ms).toISOString();
  const steps: Step[] = [
    { do: "wait", reason: "failure 9 in a row; next try", until: time(249_001) },
    { do: "wait", reason: "the engine loads its model" },
    { do: "wait", reason: "next try", until: time(-5000) },
    { do: "drain", reason: "it is unloaded", deadline: time(30_000) },
  ];
  const plan = { reason: "Exited", message: "exit code 1", steps };
  const published = { ...publishedSlot("coder", { state: "error" }, 1), plan };
  const lines = planView({ name: "coder", published }, { now: 1_000_000 }).text.split(/\n +/);
  assert.deepEqual(lines, [
    "coder: Exited: exit code 1",
    "1. wait: failure 9 in a row; next try in 4m10s",
    "2. wait: the engine loads its model",
    "3. wait: next try in 0s",
    "4. drain: it is unloaded, at most 30s more\n",
  ]);
  const idle = planView({ name: "coder", published: publishedSlot("coder", {}, 1) }, { now: 1_000_000 });
  assert.match(idle.text, /\n  nothing to do\n$/);
});

const command = ["/opt/engine", "--api-key", "canary-command"];

describe("what a manifest says in plain text", () => {
  it("is shown to administrators, and masked for every other caller", async () => {
    await using gateway = await startGateway({ SVC_AUTH_ENABLED: "1" });
    const spec = { command, args: ["--token=canary-args"], env: { HF_TOKEN: "canary-env" } };
    const published = publishedSlot("coder", { port: 1, spec }, 1);
    const step = { do: "start", role: "main", port: 1, command: command.join(" "), reason: "r" } as const;
    const publisher = await openPublisher(gateway.stateDir);
    await publisher.writeSlot({ ...published, plan: { ...published.plan, steps: [step] } });
    await until("it is known", () => gateway.running.seenRevision("coder") === 1);
    const answers = async (scope: "admin" | "all" | "read-only"): Promise<string> => {
      const headers = { authorization: `Bearer ${await gateway.token(scope)}` };
      const paths = ["/api/slots", "/api/slots/coder", "/api/slots/coder/plan", "/api/status", "/api/health/system"];
      const bodies = await Promise.all(paths.map(async (path) => (await gateway.ask("GET", path, headers)).body));
      const events = await fetch(`${gateway.url}/api/events`, { headers });
      const first = await events.body?.getReader().read();
      return [...bodies, Buffer.from(first?.value ?? []).toString()].join("\n");
    };
    for (const scope of ["all", "read-only"] as const) {
      const text = await answers(scope);
      assert.match(text, /"name":"coder"/);
      assert.match(text, /"HF_TOKEN":"\*\*\*"/);
      assert.match(text, /\/opt\/engine \*\*\*/);
      assert.doesNotMatch(text, /canary/, scope);
    }
    const text = await answers("admin");
    for (const canary of ["canary-env", "canary-args", "canary-command"]) assert.ok(text.includes(canary), canary);
  });
});
