import assert from "node:assert/strict";
import { it, mock, type TestContext } from "node:test";
import { FetchJobs, type FetchFailure } from "../../src/lib/fetch-jobs.ts";

interface Attempt {
  readonly key: string;
  readonly progress: { bytes: number };
  readonly signal: AbortSignal;
  succeed(): Promise<void>;
  fail(failure: FetchFailure): Promise<void>;
}

class Failed extends Error {
  readonly failure: FetchFailure;
  constructor(failure: FetchFailure) {
    super("failed");
    this.failure = failure;
  }
}

/** Attempts that end when the test says so, or are aborted. */
function site(t: TestContext) {
  mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  t.after(() => mock.timers.reset());
  const attempts: Attempt[] = [];
  const told: string[] = [];
  const jobs = new FetchJobs<{ bytes: number }, FetchFailure>({
    newProgress: () => ({ bytes: 0 }),
    fetch: async (key, progress, signal) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => reject(signal.reason), { once: true });
      const settle = async (end: () => void): Promise<void> => {
        end();
        await promise.catch(() => undefined);
        await new Promise((done) => setImmediate(done));
      };
      const fail = (failure: FetchFailure): Promise<void> => settle(() => reject(new Failed(failure)));
      attempts.push({ key, progress, signal, succeed: () => settle(resolve), fail });
      await promise;
    },
    failureOf: (_key, error) => (error instanceof Failed ? error.failure : { isTerminal: true }),
    onChange: (requester) => void told.push(requester),
  });
  t.after(async () => await jobs[Symbol.asyncDispose]());
  const missing = async (): Promise<undefined> => undefined;
  const ask = async (requester: string, attempt = "1", key = "thing"): Promise<string> => {
    const answer = await jobs.join(key, { requester, attempt }, missing);
    await new Promise((done) => setImmediate(done));
    return "job" in answer ? answer.job.state : "found";
  };
  return { jobs, attempts, told, ask };
}

it("is done once for all requesters, and all of them are notified of its progress and its end", async (t) => {
  const { jobs, attempts, told, ask } = site(t);
  assert.deepEqual([await ask("a"), await ask("b"), await ask("a")], ["running", "running", "running"]);
  assert.equal(attempts.length, 1);
  mock.timers.tick(1000);
  assert.deepEqual(told, ["a", "b"]);
  told.length = 0;
  await attempts[0]?.succeed();
  assert.deepEqual(told, ["a", "b"]);
  assert.equal(jobs.stateOf("thing"), undefined);
  const answer = await jobs.join("thing", { requester: "a", attempt: "1" }, async () => "here");
  assert.deepEqual(answer, { found: "here" });
});

it("is tried again with back-off while an requester is left, and not before the server allows it", async (t) => {
  const { jobs, attempts, told, ask } = site(t);
  await ask("a");
  for (const [index, waitMs] of [2000, 4000, 8000].entries()) {
    await attempts[index]?.fail({ isTerminal: false });
    told.length = 0;
    assert.equal(await ask("a"), "failed");
    mock.timers.tick(waitMs - 1);
    assert.deepEqual(told, [], `attempt ${index + 1} waits ${waitMs} ms`);
    assert.equal(jobs.followed("thing", { requester: "a", attempt: "1" })?.state, "failed");
    mock.timers.tick(1);
    assert.deepEqual(told, ["a"]);
    assert.equal(jobs.followed("thing", { requester: "a", attempt: "1" }), undefined, "it is due");
    assert.equal(attempts.length, index + 1, "nothing begins unless somebody asks");
    assert.equal(await ask("a"), "running");
  }
  await attempts[3]?.fail({ isTerminal: false, retryAfterMs: 60_000 });
  mock.timers.tick(59_999);
  assert.equal(await ask("a"), "failed");
  mock.timers.tick(1);
  assert.equal(await ask("a"), "running");
});

it("that failed for good is tried again for a new reason of the same requester, and not for a known reason", async (t) => {
  const { attempts, ask } = site(t);
  await ask("a", "edit 1");
  await attempts[0]?.fail({ isTerminal: true });
  mock.timers.tick(600_000);
  assert.equal(await ask("a", "edit 1"), "failed");
  assert.equal(await ask("a", "edit 2"), "running");
  await attempts[1]?.fail({ isTerminal: true });
  assert.equal(await ask("b", "edit 9"), "running");
  assert.equal(attempts.length, 3);
});

it("is cancelled once no requester is left", async (t) => {
  const { jobs, attempts, ask } = site(t);
  await ask("a");
  await ask("b");
  await jobs.cancel("thing", "a");
  assert.equal(attempts[0]?.signal.aborted, false);
  await jobs.cancel("thing", "b");
  assert.equal(attempts[0]?.signal.aborted, true);
  assert.equal(jobs.stateOf("thing"), undefined);
  assert.equal(await ask("a"), "running");
});

it("ends with its owner, and begins no more", async (t) => {
  const { jobs, attempts, told, ask } = site(t);
  await ask("a");
  await jobs[Symbol.asyncDispose]();
  assert.equal(attempts[0]?.signal.aborted, true);
  await ask("a", "1", "other");
  assert.equal(attempts.length, 1);
  assert.deepEqual(told, []);
});

it("is paused and resumed, and goes on for the others when the requesters that have paused it leave", async (t) => {
  const { jobs, attempts, ask } = site(t);
  await ask("a");
  jobs.pause("thing", "a");
  assert.equal(attempts[0]?.signal.aborted, true);
  assert.deepEqual([await ask("a"), await ask("b", "another"), await ask("c")], ["paused", "paused", "paused"]);
  mock.timers.tick(600_000);
  assert.equal(attempts.length, 1);
  jobs.resume("thing");
  assert.equal(await ask("a"), "running");
  assert.equal(attempts.length, 2);
  for (const requester of ["a", "b"]) jobs.pause("thing", requester);
  await jobs.cancel("thing", "a");
  assert.equal(jobs.stateOf("thing")?.state, "paused");
  await jobs.cancel("thing", "b");
  assert.equal(jobs.stateOf("thing")?.state, "running");
  assert.deepEqual(jobs.requestersOf("thing"), ["c"]);
  await new Promise((done) => setImmediate(done));
  assert.equal(attempts.length, 3);
  assert.equal(attempts[2]?.signal.aborted, false);
});

it("ends for one requester all but the jobs that it keeps", async (t) => {
  const { jobs, ask } = site(t);
  await ask("a", "1", "kept");
  await ask("a", "1", "left");
  await ask("a", "1", "shared");
  await ask("b", "1", "shared");
  assert.equal(await jobs.keepOnly("a", () => new Set(["kept"])), 2);
  assert.equal(jobs.stateOf("left"), undefined);
  assert.deepEqual([jobs.requestersOf("kept"), jobs.requestersOf("shared")], [["a"], ["b"]]);
  assert.equal(await jobs.keepOnly("a", () => new Set(["kept"])), 0);
});

it("that is due again is begun without a requester that leaves while the thing is looked for", async (t) => {
  const { jobs, attempts, ask } = site(t);
  await ask("a");
  await ask("b");
  await attempts[0]?.fail({ isTerminal: true });
  const leaving = async (): Promise<undefined> => await jobs.cancel("thing", "a").then(() => undefined);
  await jobs.join("thing", { requester: "b", attempt: "2" }, leaving);
  assert.deepEqual(jobs.requestersOf("thing"), ["b"]);
  await jobs.cancel("thing", "b");
  assert.equal(attempts[1]?.signal.aborted, true, "nobody wants it any more");
});
