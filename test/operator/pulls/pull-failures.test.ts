import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { pino } from "pino";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import type { PullFailure } from "../../../src/models/fetch/model-preparation.ts";
import { WatchedProgress } from "../../../src/models/fetch/progress.ts";
import { countsOf, PullFailures } from "../../../src/operator/pulls/pull-failures.ts";
import { until } from "../../support/until.ts";
import { pullSite } from "./site.ts";

const offline = { reason: "FetchFailed", message: "the hub cannot be reached", isTerminal: false } as const;
const away = { reason: "SourceNotFound", message: "there is no such file", isTerminal: true } as const;
const hourMs = 3_600_000;

function failures() {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line) => void lines.push(String(JSON.parse(line).msg)) });
  const judged = new PullFailures(log);
  const pull = { id: "p", ref: "a" };
  return {
    lines,
    forget: () => judged.forget("p"),
    endAfter: (idleMs: number, failure: PullFailure) =>
      judged.endOf(pull, { state: "failed", progress: new WatchedProgress(performance.now() - idleMs), failure }),
  };
}

describe("a failed attempt of a pull", () => {
  it("is followed by the next one for an hour without a byte, and its cause is logged once", () => {
    const at = failures();
    for (const minutes of [0, 1, 5, 59]) assert.equal(at.endAfter(minutes * 60_000, offline), undefined);
    const going =
      "model a cannot be fetched: the hub cannot be reached; it is tried again for 60 min, less and less often";
    assert.deepEqual(at.lines, [going]);
    const message =
      "the hub cannot be reached; given up after 60 min without a byte: pull it again, and it goes on with what has come";
    const end = { state: "failed", error: { reason: "FetchFailed", message } };
    assert.partialDeepStrictEqual(at.endAfter(hourMs, offline), end);
    assert.deepEqual(at.lines, [going, `model a cannot be fetched: ${message}`]);
    at.forget();
    at.endAfter(0, offline);
    assert.equal(at.lines.length, 3, "another pull tells it again");
  });

  it("is the last one where only a person can help", () => {
    const at = failures();
    const { reason, message } = away;
    assert.partialDeepStrictEqual(at.endAfter(0, away), { state: "failed", error: { reason, message } });
    assert.deepEqual(at.lines, ["model a cannot be fetched: there is no such file"]);
  });
});

it("a pull of which no byte comes says why while it runs", () => {
  const progress = new WatchedProgress();
  assert.deepEqual(countsOf({ state: "running", progress }).error, undefined);
  progress.trouble = "the hub cannot be reached";
  const error = { reason: "FetchFailed", message: "the hub cannot be reached" };
  assert.partialDeepStrictEqual(countsOf({ state: "running", progress }), { state: "running", error });
  assert.equal(countsOf({ state: "paused", progress }).error, undefined);
});

it("a requested pull that is given up ends as failed, and nothing fetches any more", async () => {
  await using at = await pullSite({ giveUpMs: 0 });
  await at.put("person", "run");
  const [work] = await until("it is fetched", () => (at.running.size > 0 ? [...at.running.values()] : undefined));
  work?.end(new FetchError("FetchFailed", "the hub cannot be reached"));
  const ended = await at.status("the pull has ended", ({ endedAt }) => endedAt !== undefined);
  assert.equal(ended.state, "failed");
  assert.match(ended.error?.message ?? "", /^the hub cannot be reached; given up after 0 min without a byte/);
  await until("its request is gone", () => at.requests.get("person") === undefined);
  assert.deepEqual(at.pulls.list(), []);
});

it("a pull without a network waits for its next attempt, and says when that is", async () => {
  await using at = await pullSite();
  await at.put("person", "run");
  const [work] = await until("it is fetched", () => (at.running.size > 0 ? [...at.running.values()] : undefined));
  work?.end(new FetchError("FetchFailed", "the hub cannot be reached"));
  const waiting = await at.status("the attempt has failed", ({ error }) => error !== undefined);
  assert.deepEqual([waiting.state, waiting.error?.message], ["queued", "the hub cannot be reached"]);
  assert.ok(Date.parse(waiting.retryAt ?? "") > 0);
});
