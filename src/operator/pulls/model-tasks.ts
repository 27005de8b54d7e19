import type { Logger } from "pino";
import type { ModelRecord } from "../../api/model.ts";
import type { HubListing, KeptFile, ModelTask, ModelTaskAnswer } from "../../api/model-task.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { Serial } from "../../lib/serial.ts";
import type { BlobStore } from "../../models/fetch/blob-store.ts";
import { collect, exclusiveBytes } from "../../models/fetch/collect.ts";
import type { FlmTool } from "../../models/fetch/flm.ts";
import type { ModelPulls } from "../../models/fetch/model-pulls.ts";
import { FetchError } from "../../models/fetch/fetch-error.ts";
import type { OpenedPulls } from "../../models/fetch/open.ts";
import { removeFiles } from "../../models/remove-files.ts";
import type { ModelScan } from "../../models/scan.ts";
import type { SharedSets } from "../../store/shared-sets.ts";

export interface ModelTasksOptions {
  /** A paused pull has received bytes, and may have no job: its request counts. */
  readonly sets: Pick<SharedSets, "modelTasks" | "modelAnswers" | "pullRequests">;
  readonly modelsDir: string;
  readonly store: BlobStore;
  readonly pulls: Pick<ModelPulls, "list" | "remove">;
  readonly scan: Pick<ModelScan, "find">;
  /** FastFlowLM's own tool; absent: no model of its store is removed. */
  readonly flm?: Pick<FlmTool, "stored" | "remove">;
  readonly listHub: OpenedPulls["listHub"];
  readonly records: () => readonly ModelRecord[];
  readonly log: Logger;
  /** Whether files stay as they are. */
  readonly isPaused: boolean;
  /** Milliseconds after which an answer that nobody has read is deleted; less in tests. */
  readonly keepMs?: number;
}

type Outcome = Pick<ModelTaskAnswer, "error" | "reason" | "freedBytes" | "kept" | "leftovers" | "models" | "hub">;

const defaultKeepMs = 600_000;
/** A hub that has not answered by then is not waited for. Less than a gateway waits for the operator. */
const listingMs = 25_000;

/**
 * Deletes files of models and scans for them as the API requests: one task after the other, each again after a crash. Lists
 * repositories of the hub beside these: a network that does not answer holds no other task up.
 */
export class ModelTasks implements AsyncDisposable {
  readonly #options: ModelTasksOptions;
  readonly #serial = new Serial();
  readonly #begun = new Set<string>();
  readonly #listings = new Set<Promise<void>>();
  readonly #closing = new AbortController();
  readonly #watching = new DisposableStack();
  #sweeping: NodeJS.Timeout | undefined;

  constructor(options: ModelTasksOptions) {
    this.#options = options;
    const { modelTasks, modelAnswers } = options.sets;
    for (const set of [modelTasks, modelAnswers]) this.#watching.use(set.watch(() => this.#check()));
    this.#check();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#watching[Symbol.dispose]();
    clearTimeout(this.#sweeping);
    this.#closing.abort(new Error("closing"));
    await Promise.all([this.#serial.settled(), ...this.#listings]);
  }

  #check(): void {
    this.#begin();
    this.#sweep();
  }

  #begin(): void {
    const tasks = this.#options.sets.modelTasks.list().toSorted((a, b) => (a.requestedAt < b.requestedAt ? -1 : 1));
    for (const task of tasks) {
      if (this.#begun.has(task.id)) continue;
      this.#begun.add(task.id);
      if (task.kind === "hub") {
        const listing = this.#run(task).finally(() => this.#listings.delete(listing));
        this.#listings.add(listing);
      } else void this.#serial.run(async () => await this.#run(task));
    }
  }

  /** Deletes old answers, and comes back when the next one is old enough: no event may happen until then. */
  #sweep(): void {
    const { sets, log, keepMs = defaultKeepMs } = this.#options;
    clearTimeout(this.#sweeping);
    if (this.#closing.signal.aborted) return;
    const now = Date.now();
    let nextMs = Infinity;
    for (const { answers: id, answeredAt } of sets.modelAnswers.list()) {
      const leftMs = Date.parse(answeredAt) + keepMs - now;
      if (leftMs > 0) {
        // An answer from before the clock was set back is not kept for longer.
        nextMs = Math.min(nextMs, leftMs, keepMs);
        continue;
      }
      nextMs = Math.min(nextMs, keepMs);
      void this.#serial
        .run(async () => await sets.modelAnswers.remove(id))
        .catch((error: unknown) => log.warn({ err: error }, "an old answer about models cannot be deleted"));
    }
    if (nextMs < Infinity) this.#sweeping = setTimeout(() => this.#sweep(), nextMs).unref();
  }

  async #run(task: ModelTask): Promise<void> {
    const { sets, log } = this.#options;
    // The next operator does it.
    if (this.#closing.signal.aborted) return;
    // Withdrawn, or answered together with an equal task.
    if (sets.modelTasks.get(task.id) === undefined) {
      this.#begun.delete(task.id);
      return;
    }
    const same = this.#sameAs(task);
    try {
      const outcome = await this.#outcome(task);
      const answeredAt = new Date().toISOString();
      for (const { id } of same) {
        await sets.modelAnswers.put({ schema: 1, answers: id, answeredAt, ...outcome });
        await sets.modelTasks.remove(id);
      }
    } catch (error) {
      log.error({ err: error }, `the task ${task.kind} of models cannot be answered`);
    } finally {
      this.#begun.delete(task.id);
    }
  }

  /** The tasks that the outcome of `task` answers: all equal scans that wait when it begins. */
  #sameAs(task: ModelTask): readonly ModelTask[] {
    if (task.kind !== "scan") return [task];
    const directories = JSON.stringify(task.directories);
    return this.#options.sets.modelTasks
      .list()
      .filter((each) => each.kind === "scan" && JSON.stringify(each.directories) === directories);
  }

  async #outcome(task: ModelTask): Promise<Outcome> {
    const { log, isPaused } = this.#options;
    if (isPaused && task.kind !== "hub")
      return { error: "this operator was started with --paused: it changes nothing" };
    try {
      return await this.#done(task);
    } catch (error) {
      this.#closing.signal.throwIfAborted();
      const reason = error instanceof FetchError ? { reason: error.reason } : {};
      // A repository that a person has mistyped is no event of the service.
      if (task.kind !== "hub") log.warn(`the task ${task.kind} of models has failed: ${errorMessage(error)}`);
      return { error: errorMessage(error), ...reason };
    }
  }

  async #done(task: ModelTask): Promise<Outcome> {
    const { log, pulls, modelsDir, records, sets, scan, store } = this.#options;
    switch (task.kind) {
      case "remove": {
        const { ref, files, isDryRun } = task;
        const plain = await removeFiles({ modelsDir, ref, files, records: records(), isDryRun });
        const own = await this.#removeFlm(task);
        const [freedBytes, kept] = [plain.freedBytes + own.freedBytes, [...plain.kept, ...own.kept]];
        if (isDryRun) return { freedBytes: freedBytes + exclusiveBytes(store, ref), kept };
        const freed = (await pulls.remove({ ref })) + freedBytes;
        log.info(`the files of model ${ref} were removed; ${freed} bytes are free`);
        for (const { path, reason } of kept) log.warn(`${path} of model ${ref} stays: ${reason}`);
        return { freedBytes: freed, kept };
      }
      case "collect": {
        const active = (): ReadonlySet<string> =>
          new Set(
            [...pulls.list().map(({ model }) => model), ...sets.pullRequests.list()].flatMap(({ files }) =>
              files.map(({ source }) => source),
            ),
          );
        const isFetching = (): boolean => pulls.list().some(({ job }) => job.state === "running");
        const { signal } = this.#closing;
        const found = await collect({ store, active, isFetching, isDryRun: task.isDryRun, signal });
        if (!task.isDryRun) log.info(`${found.leftovers.length} unused files were removed; ${found.freedBytes} bytes`);
        return { leftovers: [...found.leftovers], freedBytes: found.freedBytes, kept: [...found.kept] };
      }
      case "scan":
        return { models: [...(await scan.find(task.directories, records(), this.#closing.signal))] };
      case "hub":
        return { hub: await this.#listed(task) };
      default:
        return task satisfies never;
    }
  }

  async #listed({ owner, repo, revision }: Extract<ModelTask, { kind: "hub" }>): Promise<HubListing> {
    const limit = AbortSignal.timeout(listingMs);
    const signal = AbortSignal.any([this.#closing.signal, limit]);
    try {
      return await this.#options.listHub({ owner, repo, revision }, signal);
    } catch (error) {
      if (!limit.aborted) throw error;
      const text = `the hub has not listed ${owner}/${repo} within ${listingMs / 1000} s; check the network and the proxy (HTTPS_PROXY)`;
      throw new FetchError("FetchFailed", text);
    }
  }

  /** A model of FastFlowLM's own store, by its own tool. Another model of that source keeps it. */
  async #removeFlm({ ref, flm: tag, isDryRun }: Extract<ModelTask, { kind: "remove" }>): Promise<{
    readonly freedBytes: number;
    readonly kept: readonly KeptFile[];
  }> {
    const { flm, records } = this.#options;
    if (tag === undefined) return { freedBytes: 0, kept: [] };
    const source = `flm://${tag}`;
    let path = source;
    try {
      if (flm === undefined) throw new Error("nobody removes models of FastFlowLM here");
      const { directory, sizeBytes } = await flm.stored(tag);
      path = directory;
      const user = records().find((record) => record.ref !== ref && record.source === source);
      if (user !== undefined) throw new Error(`the model ${user.ref} has it, too`);
      if (isDryRun || sizeBytes === 0) return { freedBytes: sizeBytes, kept: [] };
      return { freedBytes: await flm.remove(tag, this.#closing.signal), kept: [] };
    } catch (error) {
      this.#closing.signal.throwIfAborted();
      return { freedBytes: 0, kept: [{ path, reason: errorMessage(error) }] };
    }
  }
}
