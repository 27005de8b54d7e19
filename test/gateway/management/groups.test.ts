import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { GroupStatus } from "../../../src/api/group-status.ts";
import type { GroupStore } from "../../../src/store/state/groups.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { until } from "../../support/until.ts";
import { rowsOf, site, type Site } from "./fixture.ts";

const since = "2026-01-01T00:00:00.000Z";
const needs = [{ resource: "memory" as const, amount: 10 }];
const gpu: GroupStatus = {
  name: "gpu",
  isDeclared: true,
  budget: [{ resource: "memory", total: 24, used: 10 }],
  members: [
    { slot: "b", state: "waiting", since, needs, message: "group gpu is full" },
    { slot: "a", state: "loaded", since, needs, cost: { loadSeconds: 4.25, contextTokens: 600 } },
  ],
  problems: [],
};
const odd = "my gpu: 50%";

describe("/api/groups", () => {
  let at: Site;
  /** The operator's side. */
  let store: GroupStore;
  const stack = new AsyncDisposableStack();
  before(async () => {
    at = stack.use(await site({ slots: { a: { spec: { group: "gpu" } } } }));
    store = stack.use(await sharedSets(at.stateDir)).groups;
    await store.publish([gpu, { ...gpu, name: odd, isDeclared: false, members: [] }, { ...gpu, name: "new" }]);
    await until("the groups are read", async () => rowsOf(await at.got("/api/groups")).length === 3);
  });
  after(() => stack[Symbol.asyncDispose]());

  it("shows the amounts that slots hold, and the reasons of waiting slots", async () => {
    const [waiting, loaded] = gpu.members;
    assert.partialDeepStrictEqual(await at.got("/api/groups/gpu"), {
      declared: true,
      budget: [{ resource: "memory", total: 24, used: 10, free: 14 }],
      lent_until: null,
      members: [
        { ...waiting, cost: null, message: "group gpu is full" },
        { ...loaded, cost: { load_seconds: 4.25, context_tokens: 600, context_seconds: null }, message: null },
      ],
    });
  });

  it("lends a group for a time that outlives this gateway, and ends that, whatever the group's name", async () => {
    for (const name of ["gpu", odd]) {
      const path = `/api/groups/${encodeURIComponent(name)}`;
      assert.equal((await at.send("POST", `${path}/lend`, { seconds: 7200 })).status, 202);
      const loan = await until("the operator has read it", () => store.loan(name));
      const leftMs = Date.parse(loan.until) - Date.now();
      assert.ok(leftMs > 7_000_000 && leftMs <= 7_200_000, `${leftMs} ms`);
      assert.equal((await at.got(path))["lent_until"], loan.until);
      assert.equal((await at.send("DELETE", `${path}/lend`)).status, 202);
      await until("the operator has read that it is over", () => store.loan(name) === undefined);
      assert.equal((await at.got(path))["lent_until"], null);
    }
  });

  it("refuses what makes no sense", async () => {
    const twoKinds = { budget: { slots: 1, memoryBytes: 5 } };
    for (const [method, path, body, told] of [
      ["POST", "gqu/lend", { seconds: 60 }, /^404 .*no group is called "gqu"; did you mean gpu\?/],
      ["POST", "gpu/lend", {}, /^400 .*seconds/],
      ["POST", "gpu/lend", { seconds: 0 }, /^400 .*seconds/],
      ["POST", "gpu/lend", { seconds: 1e9 }, /^400 .*seconds/],
      ["PUT", "gpu", twoKinds, /^422 .*budget: has one kind/],
      ["PUT", encodeURIComponent("../x"), {}, /^400 .*name/],
    ] as const) {
      const { is, message } = await at.refused(method, `/api/groups/${path}`, body);
      assert.match(`${is}: ${message}`, told);
    }
  });

  it("writes a group's manifest and removes it", async () => {
    const put = async (body: object) => (await at.send("PUT", "/api/groups/new", body)).status;
    assert.equal(await put({ budget: { device: "gpu0" } }), 201);
    assert.equal(await put({ budget: { slots: 2 }, maxWaitSeconds: 5 }), 202);
    assert.equal((await at.send("DELETE", "/api/groups/new")).status, 202);
  });

  it("says of a group whose directory has lost its files that the declaration stays in force", async () => {
    const config = join(at.stateDir, "config");
    const problem = (kind: string) =>
      ({ reason: "SourceEmpty", message: `${kind} holds no manifest any more` }) as const;
    const problems = ["groups", "slots"].map((kind) => ({ ...problem(kind), file: join(config, kind) }));
    await at.publishOperator({ problems });
    const resource = { kind: "SlotGroup", name: "gpu", generation: 1, specHash: "1", conditions: [] } as const;
    await at.publishRegistry({ resources: [{ ...resource, conditions: [], file: join(config, "groups/gpu.toml") }] });
    await until("the group has the problem", async () =>
      isDeepStrictEqual((await at.got("/api/groups/gpu"))["problems"], [problem("groups")]),
    );
    const diagnostics = ["groups", "slots"].map((file) => ({ ...problem(file), file }));
    assert.deepEqual(await at.got("/api/config/validate", "POST"), { valid: false, diagnostics });
  });
});
