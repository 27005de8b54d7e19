import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import type { GroupStatus } from "../../../src/api/group-status.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { documentsInFiles } from "../../../src/store/documents.ts";
import { openGroupStore, type GroupStore } from "../../../src/store/state/groups.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";

const gpu: GroupStatus = {
  name: "gpu",
  isDeclared: true,
  budget: [{ resource: "memory", total: 24, used: 10 }],
  members: [
    {
      slot: "b",
      state: "waiting",
      since: "2026-01-01T00:00:00.000Z",
      needs: [{ resource: "memory", amount: 16 }],
      message: "group gpu is full",
    },
    {
      slot: "a",
      state: "loaded",
      since: "2026-01-01T00:00:00.000Z",
      needs: [{ resource: "memory", amount: 10 }],
      cost: { loadSeconds: 4.25, contextTokens: 600 },
    },
  ],
  problems: [],
};

interface Scene extends AsyncDisposable {
  readonly gateway: TestGateway;
  /** The operator's side. */
  readonly store: GroupStore;
  get(path: string): Promise<Record<string, unknown>>;
  send(method: string, path: string, body?: unknown): Promise<Response>;
}

async function scene(...groups: readonly GroupStatus[]): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const gateway = stack.use(await startGateway({ slots: { a: { spec: { group: "gpu" } } } }));
  const store = stack.use(await openGroupStore(documentsInFiles(gateway.stateDir)));
  await store.publish(groups);
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const found: unknown = await (await fetch(`${gateway.url}${path}`)).json();
    return isRecord(found) ? found : {};
  };
  await until("the gateway has read the groups", async () => {
    const { data } = await get("/api/groups");
    return Array.isArray(data) && data.length === groups.length;
  });
  const owned = stack.move();
  return {
    gateway,
    store,
    get,
    send: (method, path, body) =>
      fetch(`${gateway.url}${path}`, {
        method,
        ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),
      }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

describe("/api/groups", () => {
  it("says of a group whose directory has lost its files that the declaration stays in force", async () => {
    await using site = await scene(gpu);
    const { gateway } = site;
    const configDir = join(gateway.stateDir, "config");
    const directory = join(configDir, "groups");
    await mkdir(configDir);
    const message = `${directory} holds no manifest any more`;
    await gateway.publishOperator({
      problems: [
        { reason: "SourceEmpty", message, file: directory },
        { reason: "SourceEmpty", message: "another", file: join(configDir, "slots") },
      ],
    });
    const file = join(directory, "gpu.toml");
    await gateway.publishRegistry({
      resources: [{ kind: "SlotGroup", name: "gpu", file, generation: 1, specHash: "1", conditions: [] }],
    });
    const problems = [{ reason: "SourceEmpty", message }];
    await until("the group has the problem", async () =>
      isDeepStrictEqual((await site.get("/api/groups/gpu"))["problems"], problems),
    );
    const validated: unknown = await (await site.send("POST", "/api/config/validate")).json();
    assert.ok(isRecord(validated));
    assert.deepEqual(validated, {
      valid: false,
      diagnostics: [
        { reason: "SourceEmpty", file: "groups", message },
        { reason: "SourceEmpty", file: "slots", message: "another" },
      ],
    });
  });

  it("shows the amounts that slots hold, and the reasons of waiting slots", async () => {
    await using site = await scene(gpu, { ...gpu, name: "other", isDeclared: false, members: [] });
    const one = await site.get("/api/groups/gpu");
    assert.deepEqual(
      [one["declared"], one["budget"], one["lent_until"]],
      [true, [{ resource: "memory", total: 24, used: 10, free: 14 }], null],
    );
    assert.deepEqual(one["members"], [
      { ...gpu.members[0], cost: null, message: "group gpu is full" },
      { ...gpu.members[1], cost: { load_seconds: 4.25, context_tokens: 600, context_seconds: null }, message: null },
    ]);
  });

  it("lends a group for a time that outlives this gateway, and ends that", async () => {
    await using site = await scene(gpu);
    const lent = await site.send("POST", "/api/groups/gpu/lend", { seconds: 7200 });
    assert.equal(lent.status, 202);
    await until("the operator has read it", () => site.store.loan("gpu") !== undefined);
    const leftMs = Date.parse(site.store.loan("gpu")?.until ?? "") - Date.now();
    assert.ok(leftMs > 7_100_000 && leftMs <= 7_200_000, `${leftMs} ms`);
    const shown = await site.get("/api/groups/gpu");
    assert.equal(shown["lent_until"], site.store.loan("gpu")?.until);
    assert.equal((await site.send("DELETE", "/api/groups/gpu/lend")).status, 202);
    await until("the operator has read that it is over", () => site.store.loan("gpu") === undefined);
    assert.equal((await site.get("/api/groups/gpu"))["lent_until"], null);
  });

  it("lends a group that only a slot names, whatever the name", async () => {
    await using site = await scene({ ...gpu, name: "my gpu: 50%", isDeclared: false });
    const path = `/api/groups/${encodeURIComponent("my gpu: 50%")}/lend`;
    assert.equal((await site.send("POST", path, { seconds: 60 })).status, 202);
    await until("the operator has read it", () => site.store.loan("my gpu: 50%") !== undefined);
  });

  const bad: readonly (readonly [
    what: string,
    method: string,
    path: string,
    body: unknown,
    status: number,
    words: RegExp,
  ])[] = [
    [
      "a group that nobody knows",
      "POST",
      "/api/groups/gqu/lend",
      { seconds: 60 },
      404,
      /no group is called "gqu"; did you mean gpu\?/,
    ],
    ["no time", "POST", "/api/groups/gpu/lend", {}, 400, /seconds/],
    ["a time that is none", "POST", "/api/groups/gpu/lend", { seconds: 0 }, 400, /seconds/],
    ["a time of years", "POST", "/api/groups/gpu/lend", { seconds: 1e9 }, 400, /seconds/],
    [
      "a budget of two kinds",
      "PUT",
      "/api/groups/gpu",
      { budget: { slots: 1, memoryBytes: 5 } },
      422,
      /budget: has one kind/,
    ],
    ["a name that no file may have", "PUT", `/api/groups/${encodeURIComponent("../x")}`, {}, 400, /name/],
  ];
  for (const [what, method, path, body, status, words] of bad) {
    it(`refuses ${what}`, async () => {
      await using site = await scene(gpu);
      const response = await site.send(method, path, body);
      const { message } = (await envelopeOf(response)).error;
      assert.deepEqual([response.status, words.test(message)], [status, true], message);
    });
  }

  it("writes a group's manifest and removes it", async () => {
    await using site = await scene({ ...gpu, name: "new" });
    assert.equal((await site.send("PUT", "/api/groups/new", { budget: { device: "gpu0" } })).status, 201);
    assert.equal((await site.send("PUT", "/api/groups/new", { budget: { slots: 2 }, maxWaitSeconds: 5 })).status, 202);
    assert.equal((await site.send("DELETE", "/api/groups/new")).status, 202);
  });
});
