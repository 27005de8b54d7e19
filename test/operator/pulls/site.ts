import assert from "node:assert/strict";
import { join } from "node:path";
import { pino } from "pino";
import type { PullRequest, PullStatus } from "../../../src/api/pull.ts";
import { BlobStore } from "../../../src/models/fetch/blob-store.ts";
import { HashThread } from "../../../src/models/fetch/hash-thread.ts";
import { ModelPulls } from "../../../src/models/fetch/model-pulls.ts";
import type { WantedModel } from "../../../src/models/fetch/wanted-model.ts";
import type { Done } from "../../../src/operator/queue.ts";
import { PullRequests, type PullRequestsOptions } from "../../../src/operator/pulls/pull-requests.ts";
import { sharedSets } from "../../support/shared-sets.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { until } from "../../support/until.ts";

/** Ends as it is told, or is aborted. */
interface Work {
  readonly done: Promise<void>;
  end(error?: Error): void;
}

function begun(signal: AbortSignal): Work {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  return { done: promise, end: (error) => (error === undefined ? resolve() : reject(error)) };
}

/** The pulls of an operator, whose fetches and checks read nothing, and end as they are told. */
export async function pullSite(more: Partial<PullRequestsOptions> = {}) {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  const store = await BlobStore.open(join(directory.path, "models"), "this boot");
  const hashThread = stack.use(new HashThread());
  /** The models that are being fetched now. */
  const running = new Map<WantedModel, Work>();
  /** The checks that read now, by the ref of their model. */
  const checks = new Map<string, Work>();
  const onError = (error: unknown): void => assert.fail(String(error));
  const fetch = {
    fetch: async (model: WantedModel, _progress: unknown, signal: AbortSignal) => {
      const work = begun(signal);
      running.set(model, work);
      await work.done.finally(() => running.delete(model));
      return { schema: 1 as const, ref: model.ref, files: [], pulledAt: new Date().toISOString() };
    },
    discard: async () => undefined,
  };
  class Pulls extends ModelPulls {
    override async verify({ ref }: { readonly ref: string }, _progress: unknown, signal: AbortSignal): Promise<void> {
      const work = begun(signal);
      checks.set(ref, work);
      await work.done.finally(() => checks.delete(ref));
    }
  }
  const pulls = stack.use(new Pulls({ store, fetch, hashThread, onError }));
  const sets = stack.use(await sharedSets(directory.path));
  const { pullRequests: requests, pulls: published } = sets;
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line) => void lines.push(line) });
  const shapes = { watch: () => ({ [Symbol.dispose]: () => undefined }) };
  const options = { sets, pulls, shapes, log, isPaused: false, publishMs: 5, ...more };
  const handled = stack.use(new PullRequests(options));
  let syncing: Promise<unknown> = Promise.resolve();
  /** Called when the models are published. */
  const models = { publish: async (): Promise<Done> => ({}) };
  const onKey = (key: string): void =>
    void (syncing = syncing.then(async () => await handled.sync(key, () => models.publish())));
  stack.use(handled.watch(onKey, () => undefined));
  const owned = stack.move();
  return {
    directory: directory.path,
    store,
    pulls,
    requests,
    /** As it was published last. */
    statuses: (): readonly PullStatus[] => published.only()?.pulls ?? [],
    /** Of an operator's part that carries out requests, and that of this one. */
    options,
    handled,
    models,
    /** Of the log. */
    lines,
    refs: (): string[] => [...running.keys()].map(({ ref }) => ref).toSorted(),
    running,
    checks,
    put: async (id: string, action: PullRequest["action"], more: Partial<PullRequest> = {}): Promise<void> => {
      const requestedAt = new Date().toISOString();
      const files = [{ source: "hf://o/r/a.gguf" }];
      await requests.put({ schema: 1, id, ref: "a", files, isOpen: false, action, requestedAt, ...more });
    },
    /** Waits until the published state of a pull is as wanted. */
    status: async (what: string, isWanted: (status: PullStatus) => boolean): Promise<PullStatus> =>
      await until(what, () => published.only()?.pulls.find(isWanted)),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
