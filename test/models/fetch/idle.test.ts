import assert from "node:assert/strict";
import { it } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import type { DownloadProgress } from "../../../src/models/fetch/progress.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const model = { ref: "a", files: [{ source: "https://example.com/a.gguf" }], isOpen: false };
const requester = { requester: "slot", attempt: "1" };

it("a pull is idle since its last byte, over attempts that fail; a paused one is not, and none has no figure", async () => {
  await using directory = await tempDir();
  await using hashThread = new HashThread();
  let attempts = 0;
  let progress: DownloadProgress | undefined;
  let fail: (error: Error) => void = () => undefined;
  await using pulls = new ModelPulls({
    store: await BlobStore.open(directory.path, "this boot"),
    fetch: {
      fetch: (_model, own, signal) => {
        attempts += 1;
        progress = own;
        return new Promise((_resolve, reject) => {
          fail = reject;
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
      discard: async () => undefined,
    },
    hashThread,
    onError: (error) => assert.fail(String(error)),
  });
  /** The idle time ten minutes after a moment, since another one before. */
  const isIdleSince = (from: number, to: number): void => {
    const seconds = pulls.idle(to + 600_000).get("a") ?? Number.NaN;
    const most = 600.001 + (to - from) / 1000;
    assert.ok(seconds > 599.999 && seconds < most, `${seconds} s, at most ${most} s`);
  };
  const said = async (): Promise<unknown> => await pulls.preparation(model, requester);
  assert.equal(pulls.idle().get("a"), undefined);
  const began = performance.now();
  await pulls.join(model, requester);
  const own = await until("it runs", () => attempts === 1 && progress);
  isIdleSince(began, performance.now());
  own.trouble = "hub.example.org does not answer";
  const trouble = "; no byte comes, and it is tried again: hub.example.org does not answer";
  assert.partialDeepStrictEqual(await said(), { message: `the model a is being fetched${trouble}` });

  await until("it has been idle", () => (pulls.idle().get("a") ?? 0) > 0.05);
  const before = performance.now();
  own.receivedBytes += 1;
  const moved = performance.now();
  isIdleSince(before, moved);
  assert.partialDeepStrictEqual(await said(), { message: "the model a is being fetched" });

  // The next attempt has received nothing either.
  fail(new FetchError("FetchFailed", "no way"));
  await until("it has failed", async () => (await pulls.preparation(model, requester)).state === "failed");
  isIdleSince(before, moved);
  await until("another attempt runs", async () => {
    await pulls.join(model, requester);
    return attempts === 2;
  });
  isIdleSince(before, moved);

  pulls.pause(model, requester.requester);
  assert.equal(pulls.idle(performance.now() + 900_000).get("a"), 0);
  const resumed = performance.now();
  pulls.resume(model);
  await until("it runs again", () => attempts === 3);
  isIdleSince(resumed, performance.now());
  await pulls.leave(model, requester.requester);
  assert.deepEqual([...pulls.idle()], []);
});
