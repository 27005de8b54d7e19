import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { openDemandWriter } from "../../../src/store/state/demand.ts";
import { clearLeftovers } from "../../../src/store/state/leftovers.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const requestedAt = "2026-01-01T00:00:00.000Z";

/** A store that publishes meanwhile may put a file into the directory between its emptying and its removal. */
const removal = { recursive: true, maxRetries: 20, retryDelay: 5 };

describe("a directory of the state that somebody deletes while it is in use", { concurrency: true }, () => {
  it("is made again by the next request", async () => {
    await using state = await tempDir();
    await using stack = new AsyncDisposableStack();
    const { requests: operator } = stack.use(await sharedSets(state.path));
    const { requests: gateway } = stack.use(await sharedSets(state.path));
    await rm(join(state.path, "requests"), { recursive: true });
    const request = { schema: 1, slot: "a", kind: "restart", token: "t", specHash: "h", requestedAt } as const;
    await gateway.put(request);
    assert.deepEqual(gateway.list("a"), [request]);
    await until("the operator sees it", () => operator.list("a").length === 1);
  });

  it("is made again with what the operator publishes there, and by the next loan", async () => {
    await using state = await tempDir();
    await using stack = new AsyncDisposableStack();
    const { groups: operator } = stack.use(await sharedSets(state.path));
    const { groups: gateway } = stack.use(await sharedSets(state.path));
    await operator.publish([]);
    const status = join(state.path, "groups/status.json");
    const published = await readFile(status, "utf8");
    await rm(dirname(status), removal);
    await until("it is published again", () => existsSync(status));
    assert.equal(await readFile(status, "utf8"), published);
    await rm(join(state.path, "loans"), removal);
    await gateway.lend({ schema: 1, group: "gpu", until: requestedAt, requestedAt });
    assert.equal(gateway.loan("gpu")?.until, requestedAt);
  });
});

describe("files of processes that were killed", { concurrency: true }, () => {
  const long = new Date(Date.now() - 120_000);
  const old = async (path: string): Promise<void> => {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, "");
    await utimes(path, long, long);
  };

  it("that are temporary are removed in each directory, and other programs' in the configuration stay", async () => {
    await using directory = await tempDir();
    const left = ".a.json.01234567-89ab-cdef-0123-456789abcdef.tmp";
    const state = ["groups", "loans", "model-answers", "pull-requests", "requests/removals", "contexts/a"];
    for (const name of state) for (const file of [left, "a.json"]) await old(join(directory.path, name, file));
    const slots = join(directory.path, "config/slots");
    for (const file of [left, ".mine.tmp", "a.toml"]) await old(join(slots, file));
    await clearLeftovers(directory.path, [slots, join(directory.path, "config/none")]);
    for (const name of state) assert.deepEqual(await readdir(join(directory.path, name)), ["a.json"], name);
    assert.deepEqual((await readdir(slots)).toSorted(), [".mine.tmp", "a.toml"]);
  });

  it("that hold the demand of a gateway are removed by the next gateway", async () => {
    await using state = await tempDir();
    await old(join(state.path, "demand/killed.json"));
    await writeFile(join(state.path, "demand/live.json"), "");
    await using _gateway = await openDemandWriter(state.path, "next");
    assert.deepEqual(await readdir(join(state.path, "demand")), ["live.json"]);
  });
});
