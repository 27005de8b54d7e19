import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { apiDouble } from "../support/api-double.ts";
import { runBerth } from "../support/command.ts";

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
const groups = { object: "list", data: [gpu, loose] };

describe("berth group", () => {
  it("lists the budgets of groups, the loaded slots and the waiting slots", async () => {
    await using api = await apiDouble({ "/api/groups": groups });
    const { stdout } = await runBerth(["group", "list"], { SVC_URL: api.url });
    assert.equal(
      stdout,
      "NAME   STATE         USED                  LOADED  WAITING\n" +
        "gpu    ok            10.0 GiB of 24.0 GiB  coder   writer\n" +
        "loose  not declared  -                     -       -\n",
    );
  });

  it("says that a file is not in force, and where it is wrong", async () => {
    await using api = await apiDouble({ "/api/groups": { object: "list", data: [broken] } });
    assert.match((await runBerth(["group", "list"], { SVC_URL: api.url })).stdout, /^broken {2}InvalidSpec {2}/m);
    const { stdout } = await runBerth(["group", "show", "broken"], { SVC_URL: api.url });
    assert.match(stdout, /^file: {11}\/etc\/berth\/groups\/broken\.toml, not in force$/m);
    assert.ok(stdout.includes(message));
  });

  it("shows what each slot takes and waits for", async () => {
    await using api = await apiDouble({ "/api/groups": groups });
    const { stdout } = await runBerth(["group", "show", "gpu"], { SVC_URL: api.url });
    assert.match(stdout, /^used: {11}10\.0 GiB of 24\.0 GiB$/m);
    assert.match(
      stdout,
      /^ {2}coder {11}loaded since 2026-01-01T00:00:00\.000Z, 10\.0 GiB of memory, loads in 4\.3 s, has 6000 tokens in its cache \(12\.0 s\)$/m,
    );
    assert.match(stdout, /^ {2}writer {10}waiting since .*, 16\.0 GiB of memory: group gpu is full: it needs/m);
    const other = await runBerth(["group", "show", "loose"], { SVC_URL: api.url });
    assert.match(
      other.stdout,
      /^file: {11}none: its slots share the memory of their devices; groups\/loose\.toml can give them a budget \(docs\/groups\.md\)$/m,
    );
    const wrong = await runBerth(["group", "show", "gpo"], { SVC_URL: api.url });
    assert.deepEqual([wrong.code, /there is no group called gpo; did you mean gpu\?/.test(wrong.stderr)], [1, true]);
  });
});

describe("berth lend", () => {
  const answers = {
    "/api/groups": groups,
    "/api/groups/gpu/lend": { ...gpu, lent_until: "2026-01-01T02:00:00.000Z" },
    "/api/groups/loose/lend": { ...loose, lent_until: "2026-01-01T02:00:00.000Z" },
  };

  it("lends a group or all groups, and ends the loan", async () => {
    await using api = await apiDouble(answers);
    const env = { SVC_URL: api.url };
    assert.deepEqual(await runBerth(["lend", "2h", "--group", "gpu"], env), {
      code: 0,
      stdout: "gpu: lent until 2026-01-01T02:00:00.000Z; unloaded once their requests have ended: coder\n",
      stderr: "",
    });
    assert.match((await runBerth(["lend", "1h30m"], env)).stdout, /^gpu: lent until .*\nloose: lent until .*\n$/);
    assert.equal((await runBerth(["lend", "--end"], env)).stdout, "gpu: no longer lent\nloose: no longer lent\n");
  });

  const bad: readonly (readonly [args: readonly string[], code: number, words: RegExp])[] = [
    [[], 2, /give a time, such as 2h, or --end/],
    [["2h", "--end"], 2, /give a time, such as 2h, or --end/],
    [["soon"], 2, /It must be a time such as 30m, 2h or 1h30m/],
    [["0m"], 2, /It must be a time/],
    [["9999999h"], 2, /It must be at most 30d; lend again to go on\./],
    [["30d1s"], 2, /It must be at most 30d/],
    [["2h", "--group", "gpo"], 1, /there is no group called gpo; did you mean gpu\?/],
  ];
  for (const [args, code, words] of bad) {
    it(`refuses: lend ${args.join(" ")}`, async () => {
      await using api = await apiDouble(answers);
      const found = await runBerth(["lend", ...args], { SVC_URL: api.url });
      assert.deepEqual([found.code, words.test(found.stderr)], [code, true], found.stderr);
    });
  }

  it("says how to define a group where there is none", async () => {
    await using api = await apiDouble({ "/api/groups": { object: "list", data: [] } });
    const { code, stderr } = await runBerth(["lend", "2h"], { SVC_URL: api.url });
    assert.deepEqual(
      [code, /there is no group: .*\n.*write group = "gpu" into the slots/s.test(stderr)],
      [1, true],
      stderr,
    );
  });
});
