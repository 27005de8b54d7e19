import assert from "node:assert/strict";
import { it, mock } from "node:test";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { FetchError } from "../../../src/models/fetch/fetch-error.ts";
import { FileThread } from "../../../src/models/fetch/file-thread.ts";
import { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import type { DownloadProgress } from "../../../src/models/fetch/progress.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

const model = { ref: "a", files: [{ source: "https://example.com/a.gguf" }], isOpen: false };
const requester = { requester: "slot", attempt: "1" };

it("a pull is idle since its last byte, over attempts that fail; a paused one is not, and none has no figure", async () => {
  await using directory = await tempDir();
  await using fileThread = new FileThread();
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
    fileThread,
    onError: (error) => assert.fail(String(error)),
  });
  const idleAfter = (ms: number): number | undefined => pulls.idle(performance.now() + ms).get("a");
  const isAbout = (seconds: number | undefined, expected: number): void =>
    assert.ok(seconds !== undefined && seconds >= expected && seconds < expected + 30, String(seconds));
  assert.equal(idleAfter(0), undefined);
  await pulls.join(model, requester);
  await until("it runs", () => attempts === 1);
  isAbout(idleAfter(600_000), 600);
  const said = async (): Promise<unknown> => await pulls.preparation(model, requester);
  if (progress !== undefined) progress.trouble = "hub.example.org does not answer";
  const trouble = "; no byte comes, and it is tried again: hub.example.org does not answer";
  assert.partialDeepStrictEqual(await said(), { message: `the model a is being fetched${trouble}` });

  // A byte that comes ten minutes later.
  const began = performance.now();
  const clock = mock.method(performance, "now", () => began + 600_000);
  if (progress !== undefined) progress.receivedBytes += 1;
  assert.equal(pulls.idle().get("a"), 0);
  assert.partialDeepStrictEqual(await said(), { message: "the model a is being fetched" });
  clock.mock.restore();

  // The next attempt has received nothing either.
  fail(new FetchError("FetchFailed", "no way"));
  await until("it has failed", async () => (await pulls.preparation(model, requester)).state === "failed");
  isAbout(idleAfter(600_000 + 300_000), 300);
  await until("another attempt runs", async () => {
    await pulls.join(model, requester);
    return attempts === 2;
  });
  isAbout(idleAfter(600_000 + 300_000), 300);

  pulls.pause(model, requester.requester);
  assert.equal(idleAfter(900_000), 0);
  pulls.resume(model);
  await until("it runs again", () => attempts === 3);
  isAbout(idleAfter(60_000), 60);
  await pulls.leave(model, requester.requester);
  assert.deepEqual([...pulls.idle()], []);
});
