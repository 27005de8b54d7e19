import { stat } from "node:fs/promises";
import { canonicalJson, sha256 } from "../../lib/canonical.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { FetchJobs } from "../../lib/fetch-jobs.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import type { BlobStore } from "./blob-store.ts";
import { FetchError } from "./fetch-error.ts";
import { flmTag, type FlmTool } from "./flm.ts";
import type { HashThread } from "./hash-thread.ts";
import type { ModelFetch } from "./model-fetch.ts";
import { verifyFiles, type CheckedModel } from "./verify-files.ts";
import { preparationIn, type ModelPreparation, type PullFailure, type PullState } from "./model-preparation.ts";
import { WatchedProgress, type PullProgress } from "./progress.ts";
import { isWanted, type WantedModel } from "./wanted-model.ts";

export interface ModelPullsOptions {
  readonly store: BlobStore;
  readonly fetch: Pick<ModelFetch, "fetch" | "discard">;
  readonly hashThread: HashThread;
  /** Fetches the models of FastFlowLM; absent: nobody does. */
  readonly flm?: Pick<FlmTool, "observe" | "fetch" | "sizeOf">;
  /** Models that were requested and are not over; a pull of them may not have begun. */
  readonly requested?: () => readonly Omit<WantedModel, "sizeBytes">[];
  /** Called when the installed files cannot be synced to the disk. */
  readonly onError: (error: unknown) => void;
}

/** The slot or request that wants a model, and its attempt: a new attempt retries a pull that had failed for good. */
export interface Requester {
  readonly requester: string;
  readonly attempt: string;
}

export interface ListedPull {
  readonly key: string;
  readonly model: WantedModel;
  readonly job: PullState;
  readonly requesters: readonly string[];
}

/** Fetches models in the background: each model once, however many slots and requests ask for it. */
export class ModelPulls implements AsyncDisposable {
  readonly #options: ModelPullsOptions;
  readonly #jobs: FetchJobs<WatchedProgress, PullFailure>;
  /** The model of each job, for as long as a slot or a request may ask for it. */
  readonly #models = new Map<string, WantedModel>();
  readonly #subscribers = new Subscribers<[requester: string]>();
  readonly #running = new Set<PullProgress>();
  /** When bytes of a job whose last attempt has failed came last. */
  readonly #movedAt = new Map<string, number>();
  #receivedBytes = 0;
  #stalls = 0;
  #syncing: Promise<void>;

  constructor(options: ModelPullsOptions) {
    this.#options = options;
    // An earlier operator may have installed files without syncing them.
    this.#syncing = options.store.sync().catch(options.onError);
    this.#jobs = new FetchJobs({
      newProgress: (key) => new WatchedProgress(this.#movedAt.get(key)),
      fetch: async (key, progress, signal) => await this.#run(key, progress, signal),
      failureOf: (_key, error) => failureOf(error, options.store.root),
      onChange: (requester) => this.#subscribers.notify(requester),
    });
  }

  /** Names the job that fetches these files for that ref, from all addresses or from those that are open to everybody. */
  jobKey({ ref, files, isOpen }: Omit<WantedModel, "sizeBytes">): string {
    return `${ref} ${sha256(canonicalJson([files, isOpen])).slice(0, 16)}`;
  }

  /** Whether all of the model's files are in the store, also under the names that engines get. */
  async isThere({ ref, files }: WantedModel): Promise<boolean> {
    const { store, flm } = this.#options;
    const tag = flmTag(files);
    if (tag !== undefined) return (await flm?.observe(tag))?.state === "whole";
    const found = store.find(ref);
    if (found === undefined || !isWanted(found, files)) return false;
    const blobs = found.files.map((file) => store.hasBlob(file));
    const present = await Promise.all([...blobs, ...store.pathsOf(found).map(isFile)]);
    return present.every(Boolean);
  }

  /** The bytes of a model that is in the store; 0 for any other model. */
  sizeOf({ ref, files = [] }: Pick<WantedModel, "ref"> & Partial<WantedModel>): number {
    const tag = flmTag(files);
    if (tag !== undefined) return this.#options.flm?.sizeOf(tag) ?? 0;
    return (this.#options.store.find(ref)?.files ?? []).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }

  /** The bytes received since this object was made, and the number of stalled connections. */
  counts(): { readonly receivedBytes: number; readonly stalls: number } {
    const running = [...this.#running];
    return {
      receivedBytes: running.reduce((sum, { receivedBytes }) => sum + receivedBytes, this.#receivedBytes),
      stalls: running.reduce((sum, { stalls }) => sum + stalls, this.#stalls),
    };
  }

  /**
   * For how many seconds each model has received no byte whose job runs or is due for another attempt: 0 while it is
   * paused. Empty where nothing is fetched.
   */
  idle(now = performance.now()): ReadonlyMap<string, number> {
    const seconds = new Map<string, number>();
    for (const [key, { ref }] of this.#models) {
      const job = this.#jobs.stateOf(key);
      if (job === undefined || (job.state === "failed" && job.retryAt === undefined)) continue;
      const own = job.state === "paused" ? 0 : (now - job.progress.movedAt) / 1000;
      seconds.set(ref, Math.max(own, seconds.get(ref) ?? 0));
    }
    return seconds;
  }

  /** The state of the job that `requester` has asked for with that attempt. Starts nothing. */
  async preparation(model: WantedModel, requester: Requester): Promise<ModelPreparation> {
    const { ref } = model;
    const job = this.#jobs.followed(this.jobKey(model), requester);
    if (job === undefined) {
      if (await this.isThere(model)) {
        const bytesTotal = this.sizeOf(model);
        const message = `the model ${ref} was fetched`;
        return { state: "fetching", message, progress: { bytesDone: bytesTotal, bytesTotal } };
      }
      return { state: "absent", message: `the model ${ref} is not on this machine` };
    }
    return preparationIn(ref, job);
  }

  /** Starts to fetch the model, or joins the job that fetches it. Does nothing if the model is in the store. */
  async join(model: WantedModel, requester: Requester): Promise<{ readonly job: PullState } | "there"> {
    const key = this.jobKey(model);
    this.#models.set(key, model);
    const answer = await this.#jobs.join(key, requester, async () => {
      if (await this.isThere(model)) return true;
      // `list` forgets a model without a job: there was none meanwhile.
      this.#models.set(key, model);
      return undefined;
    });
    return "job" in answer ? { job: answer.job } : "there";
  }

  /** Every job that is not over, with its model and the slots and requests that want it. */
  list(): readonly ListedPull[] {
    return [...this.#models].flatMap(([key, model]) => {
      const job = this.#jobs.stateOf(key);
      if (job === undefined) {
        this.#models.delete(key);
        this.#movedAt.delete(key);
      }
      return job === undefined ? [] : [{ key, model, job, requesters: this.#jobs.requestersOf(key) }];
    });
  }

  /** Calls `onRequester` with the requester of a job that has progressed, has ended, or is due for another attempt. */
  watch(onRequester: (requester: string) => void): Disposable {
    return this.#subscribers.add(onRequester);
  }

  /** Until somebody resumes it, or the requester leaves. */
  pause(model: WantedModel, requester: string): void {
    const key = this.jobKey(model);
    this.#movedAt.delete(key);
    this.#jobs.pause(key, requester);
  }

  resume(model: WantedModel): void {
    this.#jobs.resume(this.jobKey(model));
  }

  /** The requester no longer wants the model. Received bytes are kept. */
  async leave(model: WantedModel, requester: string): Promise<void> {
    await this.#jobs.cancel(this.jobKey(model), requester);
  }

  /** The requester wants none but these models any more. Received bytes are kept. */
  async keepOnly(requester: string, models: readonly WantedModel[]): Promise<void> {
    const left = await this.#jobs.keepOnly(requester, () => new Set(models.map((model) => this.jobKey(model))));
    if (left > 0) this.#subscribers.notify(requester);
  }

  /** Ends the job for that requester. Received bytes are deleted unless another requester or pull needs them. */
  async cancel(model: WantedModel, requester: string): Promise<void> {
    const key = this.jobKey(model);
    await this.#jobs.cancel(key, requester);
    if (this.#jobs.stateOf(key) !== undefined || (await this.isThere(model))) return;
    await this.#options.fetch.discard(model, (source) => this.#isNeeded(source, key));
  }

  /** `verifyFiles` of a model: what was fetched of it, and what a manifest names the SHA-256 of. */
  async verify(model: CheckedModel, progress: PullProgress, signal: AbortSignal): Promise<void> {
    const { store, hashThread } = this.#options;
    await verifyFiles({ store, hashThread }, model, progress, signal);
  }

  /** Deletes the files of a ref that no other ref uses. Returns the number of freed bytes. */
  async remove({ ref }: Pick<WantedModel, "ref">): Promise<number> {
    return await this.#options.store.remove(ref);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#jobs[Symbol.asyncDispose]();
    await this.#syncing;
  }

  /** Whether another job or request than that of `key` fetches from the source. */
  #isNeeded(source: string, key: string): boolean {
    const jobs = this.list().filter((listed) => listed.key !== key);
    const requested = this.#options.requested?.().filter((model) => this.jobKey(model) !== key) ?? [];
    const others = [...jobs.map(({ model }) => model), ...requested];
    return others.some(({ files }) => files.some((file) => file.source === source));
  }

  async #run(key: string, progress: WatchedProgress, signal: AbortSignal): Promise<void> {
    const model = this.#models.get(key);
    if (model === undefined) throw new Error(`nobody has asked for ${key}`);
    this.#running.add(progress);
    const { fetch, flm, store, onError } = this.#options;
    try {
      const tag = flmTag(model.files);
      if (tag === undefined) await fetch.fetch(model, progress, signal, (source) => this.#isNeeded(source, key));
      else if (flm === undefined) throw new FetchError("ToolFailed", `nobody fetches flm://${tag} here`);
      else await flm.fetch(tag, progress, signal);
      this.#movedAt.delete(key);
    } catch (error) {
      if (!signal.aborted) this.#movedAt.set(key, progress.movedAt);
      throw error;
    } finally {
      this.#receivedBytes += progress.receivedBytes;
      this.#stalls += progress.stalls;
      this.#running.delete(progress);
    }
    // A slot does not wait for the sync: after a power cut the store detects lost content, and fetches it again.
    this.#syncing = this.#syncing.then(async () => await store.sync()).catch(onError);
  }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isFile() === true;
}

const notPermitted = new Set(["EACCES", "EPERM", "EROFS"]);

function failureOf(error: unknown, store: string): PullFailure {
  if (error instanceof FetchError) {
    const { reason, message, isTerminal, retryAfterMs } = error;
    return { reason, message, isTerminal, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
  }
  const message = errorMessage(error);
  if (notPermitted.has(errorCode(error) ?? "")) {
    return { reason: "NoPermission", message: `${message}${remedyOf(error, store)}`, isTerminal: false };
  }
  return { reason: isNoSpace(error) ? "NoSpace" : "FetchFailed", message, isTerminal: false };
}

/** Says what to do about a path that the operator's user may not use; empty where the system names no path. */
function remedyOf(error: unknown, store: string): string {
  const path = error instanceof Error && "path" in error ? error.path : undefined;
  if (typeof path !== "string") return "";
  const isStored = path === store || path.startsWith(`${store}/`);
  if (isStored && errorCode(error) === "EROFS")
    return ": mount the models directory so that it can be written, or name another one with SVC_MODELS_DIR";
  return `: give the operator's user the right to ${isStored ? "write to the models directory" : `use ${path}`}`;
}
