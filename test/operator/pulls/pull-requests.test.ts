import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import type { PullStatus } from "../../../src/api/pull.ts";
import { PullRequests } from "../../../src/operator/pulls/pull-requests.ts";
import { until } from "../../support/until.ts";
import { pullSite } from "./site.ts";

const model = { ref: "a", files: [{ source: "hf://o/r/a.gguf" }], isOpen: false };
/** A slot that wants it. */
const slot = { requester: "p", attempt: "1" };

it("a check that is cancelled reads no further, and ends as cancelled", async () => {
  await using at = await pullSite();
  await at.put("check", "verify");
  const check = await until("the files are being read", () => at.checks.get("a"));
  await at.status("it is told from a pull", ({ isCheck, state }) => isCheck === true && state === "running");
  await at.put("check", "cancel");
  await at.status("the check is cancelled", ({ id, state }) => id === "check" && state === "cancelled");
  assert.equal(at.checks.size, 0, "nothing reads");
  check.end();
  await until("its request is gone", () => at.requests.get("check") === undefined);
  assert.deepEqual(
    at.statuses().map(({ id, state }) => [id, state]),
    [["check", "cancelled"]],
  );
});

it("a pull over an open API is another one than that of a slot, which may use addresses of this machine", async () => {
  await using at = await pullSite();
  const files = [{ source: "http://127.0.0.1:9000/a.gguf" }];
  await at.pulls.join({ ref: "a", files, isOpen: false }, slot);
  await at.put("open", "run", { files, isOpen: true });
  await until("both are fetched", () => at.running.size === 2);
  assert.deepEqual(new Set([...at.running.keys()].map(({ isOpen }) => isOpen)), new Set([false, true]));
});

it("a slot's pull that a person pauses stays that of the slot, and goes on for the slot when it is resumed", async () => {
  await using at = await pullSite();
  await at.pulls.join(model, slot);
  const { id } = await at.status("the pull is listed", ({ isForSlot }) => isForSlot === true);
  await at.put(id, "pause");
  const paused = await at.status("the pull is paused", ({ state }) => state === "paused");
  assert.deepEqual([paused.id, paused.isForSlot, paused.slots], [id, true, ["p"]]);
  const preparation = await at.pulls.preparation(model, slot);
  assert.equal(
    "message" in preparation ? preparation.message : "",
    "the pull of the model a is paused: `berth pull resume a` goes on with it",
  );
  await at.put(id, "run");
  await at.status("the pull goes on", (status) => status.id === id && status.state === "running");
  await until("its request is gone", () => at.requests.get(id) === undefined);
  await at.pulls.keepOnly("p", []);
  assert.equal(at.running.size, 0, "nothing is fetched for nobody");
});

it("a pull that a person has paused and then cancels goes on for the slot that wants it", async () => {
  await using at = await pullSite();
  await at.put("person", "pause");
  await at.status("the pull is paused", ({ state }) => state === "paused");
  await at.pulls.join(model, slot);
  assert.equal(at.running.size, 0);
  await at.put("person", "cancel");
  await until("the pull goes on", () => at.running.size === 1);
  const left = await at.status("it is that of the slot", ({ isForSlot }) => isForSlot === true);
  assert.deepEqual([left.state, left.slots], ["running", ["p"]]);
});

it("a check that has ended stays completed where its request cannot be deleted, and the next operator deletes it", async () => {
  await using at = await pullSite();
  const remove = at.requests.remove.bind(at.requests);
  at.requests.remove = async () => await Promise.reject(new Error("read-only file system"));
  await at.put("check", "verify");
  (await until("the files are being read", () => at.checks.get("a"))).end();
  await until("its end is logged", () => at.lines.find((line) => line.includes("read-only file system")));
  const ended = at.statuses().map(({ id, state, isCheck }) => [id, state, isCheck]);
  assert.deepEqual(ended, [["check", "completed", true]]);
  await at.handled[Symbol.asyncDispose]();
  at.requests.remove = remove;
  await using next = new PullRequests(at.options);
  await next.sync("Pull/check", () => at.models.publish());
  assert.deepEqual([at.requests.get("check"), at.checks.size], [undefined, 0]);
});

it("pulls that have ended keep their order under the next operator: the last one first", async () => {
  await using at = await pullSite();
  for (const ref of ["a", "b"]) {
    await at.put(`check-${ref}`, "verify", { ref });
    (await until(`the files of ${ref} are being read`, () => at.checks.get(ref))).end();
    await at.status(`the check of ${ref} has ended`, ({ id, state }) => id === `check-${ref}` && state === "completed");
  }
  await at.handled[Symbol.asyncDispose]();
  const { promise, resolve } = Promise.withResolvers<readonly PullStatus[]>();
  at.options.sets.pulls.put = async ({ pulls }) => resolve(pulls);
  await using next = new PullRequests(at.options);
  using _watching = next.watch(
    () => undefined,
    () => undefined,
  );
  assert.deepEqual(
    (await promise).map(({ id }) => id),
    ["check-b", "check-a"],
  );
});

it("a pull that is paused when its model is there already has completed", async () => {
  await using at = await pullSite();
  at.pulls.isThere = async () => true;
  await at.put("person", "pause");
  await at.status("it has completed", ({ id, state }) => id === "person" && state === "completed");
  await until("its request is gone", () => at.requests.get("person") === undefined);
});

it("a pull has completed once its model is published, and has all its bytes until then", async () => {
  await using at = await pullSite();
  let [attempts, isPublishable] = [0, false];
  at.models.publish = async () => {
    attempts += 1;
    return isPublishable ? {} : { requeueMs: 1 };
  };
  await writeFile(join(at.store.root, "blobs", "sha256-abc"), "four");
  const files = [{ source: "hf://o/r/a.gguf", name: "a.gguf", sha256: "abc", sizeBytes: 4 }];
  await at.store.install({ schema: 1, ref: "a", files, pulledAt: new Date().toISOString() });
  await at.put("person", "run");
  await until("it could not be published", () => attempts > 0);
  const fetched = await at.status("it has all its bytes", ({ bytesDone }) => bytesDone === 4);
  assert.deepEqual([fetched.state, fetched.bytesTotal], ["running", 4]);
  assert.notEqual(at.requests.get("person"), undefined);
  isPublishable = true;
  assert.deepEqual(await at.handled.sync("Pull/person", at.models.publish), {});
  await at.status("the pull has completed", ({ id, state }) => id === "person" && state === "completed");
});
