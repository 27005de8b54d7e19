import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { done, listOf, told } from "./fixture.ts";

const gibibyte = 1024 ** 3;
const gpu = {
  name: "gpu",
  declared: true,
  file: "/etc/berth/groups/gpu.toml",
  spec: { budget: { memoryBytes: 24 * gibibyte }, maxWaitSeconds: 60, minResidencySeconds: 30 },
  budget: [{ resource: "memory", total: 24 * gibibyte, used: 10 * gibibyte, free: 14 * gibibyte }],
  members: [
    {
      slot: "writer",
      state: "waiting",
      since: "2026-01-01T00:00:00.000Z",
      needs: [{ resource: "memory", amount: 16 * gibibyte }],
      message: "group gpu is full: it needs 16.0 GiB, and of 24.0 GiB of memory coder holds 10.0 GiB",
    },
    {
      slot: "coder",
      state: "loaded",
      since: "2026-01-01T00:00:00.000Z",
      needs: [{ resource: "memory", amount: 10 * gibibyte }],
      cost: { load_seconds: 4.25, context_tokens: 6000, context_seconds: 12 },
      message: null,
    },
  ],
  lent_until: null,
  problems: [],
  conditions: [],
};
const loose = { ...gpu, name: "loose", declared: false, file: null, spec: null, members: [], budget: [] };
const message = "/etc/berth/groups/broken.toml:1:1: max_wait_seconds: must be a number, and is text";
const broken = {
  ...loose,
  name: "broken",
  file: "/etc/berth/groups/broken.toml",
  conditions: [
    {
      type: "Stalled",
      status: "True",
      reason: "InvalidSpec",
      message,
      lastTransitionTime: "2026-01-01T00:00:00.000Z",
      observedGeneration: 1,
    },
  ],
};
const answers = {
  "/api/groups": listOf(gpu, loose),
  "/api/groups/gpu/lend": { ...gpu, lent_until: "2026-01-01T02:00:00.000Z" },
  "/api/groups/loose/lend": { ...loose, lent_until: "2026-01-01T02:00:00.000Z" },
};
const none = { "/api/groups": listOf() };
const unknown = /there is no group called gpo; did you mean gpu\?/;

describe("berth group", () => {
  it("lists the budgets of groups, the loaded slots and the waiting slots", async () => {
    assert.equal(
      (await told(answers, "group list")).stdout,
      "NAME   STATE         USED                  LOADED  WAITING\n" +
        "gpu    ok            10.0 GiB of 24.0 GiB  coder   writer\n" +
        "loose  not declared  -                     -       -\n",
    );
  });

  it("says that a file is not in force, and where it is wrong", async () => {
    const wrong = { "/api/groups": listOf(broken) };
    assert.match((await told(wrong, "group list")).stdout, /^broken {2}InvalidSpec {2}/m);
    const { stdout } = await told(wrong, "group show broken");
    assert.match(stdout, /^file: {11}\/etc\/berth\/groups\/broken\.toml, not in force$/m);
    assert.ok(stdout.includes(message));
  });

  it("shows what each slot takes and waits for", async () => {
    const { stdout } = await told(answers, "group show gpu");
    assert.match(stdout, /^used: {11}10\.0 GiB of 24\.0 GiB$/m);
    assert.match(
      stdout,
      /^ {2}coder {11}loaded since 2026-01-01T00:00:00\.000Z, 10\.0 GiB of memory, loads in 4\.3 s, has 6000 tokens in its cache \(12\.0 s\)$/m,
    );
    assert.match(stdout, /^ {2}writer {10}waiting since .*, 16\.0 GiB of memory: group gpu is full: it needs/m);
  });

  it("says that a group has no file, and how to give it a budget", async () => {
    const file =
      "none: its slots share the memory of their devices; groups/loose.toml can give them a budget (docs/groups.md)";
    assert.ok((await told(answers, "group show loose")).stdout.includes(`file:           ${file}\n`));
  });
});

describe("berth lend", () => {
  it("lends a group or all groups, and ends the loan", async () => {
    const lent = "lent until 2026-01-01T02:00:00.000Z";
    const said = `gpu: ${lent}; unloaded once their requests have ended: coder\n`;
    assert.deepEqual((await told(answers, "lend 2h --group gpu")).ended, done(said));
    assert.equal((await told(answers, "lend 1h30m")).stdout, `${said}loose: ${lent}\n`);
    assert.equal((await told(answers, "lend --end")).stdout, "gpu: no longer lent\nloose: no longer lent\n");
  });
});

for (const [line, code, why, given] of [
  ["group show gpo", 1, unknown, answers],
  ["lend 2h --group gpo", 1, unknown, answers],
  ["lend 2h", 1, /there is no group: .*\n.*write group = "gpu" into the slots/s, none],
  ["lend", 2, /give a time, such as 2h, or --end/, answers],
  ["lend 2h --end", 2, /give a time, such as 2h, or --end/, answers],
  ["lend soon", 2, /It must be a time such as 30m, 2h or 1h30m/, answers],
  ["lend 0m", 2, /It must be a time/, answers],
  ["lend 9999999h", 2, /It must be at most 30d; lend again to go on\./, answers],
  ["lend 30d1s", 2, /It must be at most 30d/, answers],
] as const)
  it(`refuses: ${line}${given === none ? ", where there is no group" : ""}`, async () => {
    const found = await told(given, line);
    assert.equal(found.code, code, found.stderr);
    assert.match(found.stderr, why);
  });
