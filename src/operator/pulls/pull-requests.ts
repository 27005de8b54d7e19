import type { Logger } from "pino";
import type { PullRequest, PullStatus } from "../../api/pull.ts";
import { sha256 } from "../../lib/canonical.ts";
import { FailureLog } from "../../lib/failure-log.ts";
import type { RemoteShapes } from "../../models/fetch/remote-shapes.ts";
import { errorMessage } from "../../lib/error-code.ts";
import { FetchError } from "../../models/fetch/fetch-error.ts";
import type { ListedPull, ModelPulls } from "../../models/fetch/model-pulls.ts";
import { newProgress, Speed } from "../../models/fetch/progress.ts";
import { amountOf, type PullProgress } from "../../models/fetch/progress.ts";
import type { WantedModel } from "../../models/fetch/wanted-model.ts";
import type { SharedSets } from "../../store/shared-sets.ts";
import type { Done } from "../queue.ts";
import { countsOf, PullFailures, type Counts } from "./pull-failures.ts";

export interface PullRequestsOptions {
  readonly sets: Pick<SharedSets, "pullRequests" | "pulls">;
  readonly pulls: ModelPulls;
  /** Headers that are read before a slot's model is fetched. */
  readonly shapes: Pick<RemoteShapes, "watch">;
  readonly log: Logger;
  /** Whether requested pulls are not fetched. */
  readonly isPaused: boolean;
  /** Milliseconds between two publications; absent: 500. */
  readonly publishMs?: number;
  /** Milliseconds without a byte after which a requested pull ends; absent: an hour. */
  readonly giveUpMs?: number;
}

/** The reading of a model's files. */
interface Check {
  readonly progress: PullProgress;
  readonly cancelling: AbortController;
  readonly done: Promise<void>;
}

const prefix = "Pull/";
/** Ids of pulls that slots have caused. */
const slotPrefix = "slot-";
/** The number of ended pulls that are still shown. */
const mostEnded = 50;

/** Carries out requests to fetch models, and publishes the state of every pull, also of those that slots caused. */
export class PullRequests implements AsyncDisposable {
  readonly #options: PullRequestsOptions;
  readonly #ended = new Map<string, PullStatus>();
  /** Pulls whose models are in the store, and are not published yet. */
  readonly #fetched = new Map<string, Counts>();
  /** Models whose files are being read. */
  readonly #checks = new Map<string, Check>();
  readonly #closing = new AbortController();
  readonly #failureLog: FailureLog;
  readonly #failures: PullFailures;
  #timer: NodeJS.Timeout | undefined;
  #publishing: Promise<void> = Promise.resolve();

  constructor(options: PullRequestsOptions) {
    const { log, sets, giveUpMs } = options;
    this.#options = options;
    this.#failures = new PullFailures(log, giveUpMs);
    this.#failureLog = new FailureLog({
      onFailing: (error) => log.error({ err: error }, "the state of pulls cannot be published; trying again"),
      onEnd: () => log.info("the state of pulls is published again"),
    });
    // The last one to end is published first.
    for (const status of sets.pulls.only()?.pulls.toReversed() ?? [])
      if (status.endedAt !== undefined) this.#ended.set(status.id, status);
  }

  /** Calls `onKey` with the key of a request, or `onSlot` with the name of a slot, that must be reconciled again. */
  watch(onKey: (key: string) => void, onSlot: (slot: string) => void): Disposable {
    const { sets, pulls, shapes } = this.#options;
    const stack = new DisposableStack();
    stack.use(shapes.watch(onSlot));
    stack.use(sets.pullRequests.watch((ids) => ids.forEach((id) => onKey(`${prefix}${id}`))));
    stack.use(
      pulls.watch((requester) => {
        this.#schedule();
        if (requester.startsWith(prefix)) onKey(requester);
        else onSlot(requester);
      }),
    );
    for (const { id } of sets.pullRequests.list()) onKey(`${prefix}${id}`);
    this.#schedule();
    return stack;
  }

  static isKey(key: string): boolean {
    return key.startsWith(prefix);
  }

  /** Carries out the request as far as is possible now. `publishModels`: a fetched model can be used before its pull has ended. */
  async sync(key: string, publishModels: PublishModels): Promise<Done> {
    const { sets, isPaused } = this.#options;
    const request = sets.pullRequests.get(key.slice(prefix.length));
    if (request === undefined || isPaused) return {};
    // A slot's pull has the same id each time.
    if (request.id.startsWith(slotPrefix)) this.#ended.delete(request.id);
    // Its file could not be deleted when it ended.
    const hasEnded = this.#ended.has(request.id);
    if (hasEnded) await sets.pullRequests.remove(request.id);
    const done = hasEnded ? {} : await this.#handle(request, key, publishModels);
    this.#schedule();
    return done;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("closing"));
    await Promise.all([...this.#checks.values()].map(({ done }) => done));
    clearTimeout(this.#timer);
    await this.#publishing;
  }

  async #handle(request: PullRequest, requester: string, publishModels: PublishModels): Promise<Done> {
    const { pulls, log, sets } = this.#options;
    const model = modelOf(request);
    switch (request.action) {
      case "cancel":
        await this.#cancel(request, requester);
        return {};
      case "remove": {
        const freed = await pulls.remove(model);
        log.info(`model ${request.ref} was removed; ${freed} bytes are free`);
        await sets.pullRequests.remove(request.id);
        return {};
      }
      case "verify":
        return this.#verify(request);
      case "pause":
        // The request joins first: only a job can be paused, and there may be none yet.
        if ((await pulls.join(model, { requester, attempt: request.requestedAt })) === "there")
          return await this.#complete(request, publishModels);
        pulls.pause(model, requester);
        return {};
      case "run": {
        pulls.resume(model);
        const answer = await pulls.join(model, { requester, attempt: request.requestedAt });
        if (answer === "there") return await this.#complete(request, publishModels);
        const { job } = answer;
        if (request.id.startsWith(slotPrefix) && this.#slotsOf(model).length > 0) {
          // The pull goes on for the slots alone, and ends when they leave.
          await pulls.leave(model, requester);
          await sets.pullRequests.remove(request.id);
          return {};
        }
        if (job.state !== "failed") return {};
        const end = this.#failures.endOf(request, job);
        if (end === undefined) return {};
        await pulls.leave(model, requester);
        await this.#end(request, end);
        return {};
      }
      default:
        return request.action satisfies never;
    }
  }

  async #complete(request: PullRequest, publishModels: PublishModels): Promise<Done> {
    const bytesTotal = this.#options.pulls.sizeOf(modelOf(request));
    const counts = { bytesDone: bytesTotal, bytesTotal, stalls: 0 };
    this.#fetched.set(request.id, { ...counts, state: "running" });
    this.#schedule();
    const published = await publishModels();
    if (published.requeueMs !== undefined) return published;
    this.#options.log.info(`model ${request.ref} was fetched`);
    await this.#end(request, { ...counts, state: "completed" });
    return {};
  }

  async #cancel(request: PullRequest, requester: string): Promise<void> {
    const check = this.#checks.get(request.id);
    if (check === undefined) await this.#options.pulls.cancel(modelOf(request), requester);
    else {
      check.cancelling.abort(new Error("cancelled"));
      await check.done;
    }
    // The check may have been over before.
    if (this.#ended.has(request.id)) await this.#options.sets.pullRequests.remove(request.id);
    else await this.#end(request, { state: "cancelled", bytesDone: 0, stalls: 0 });
  }

  #verify(request: PullRequest): Done {
    if (this.#checks.has(request.id)) return {};
    const { pulls, log } = this.#options;
    const progress = { ...newProgress(), speed: new Speed() };
    const cancelling = new AbortController();
    const signal = AbortSignal.any([this.#closing.signal, cancelling.signal]);
    /** Undefined: the next operator begins again, unless the check was cancelled. */
    const check = async (): Promise<Counts | undefined> => {
      try {
        await pulls.verify(request, progress, signal);
        const { bytesDone } = progress;
        return { state: "completed", bytesDone, bytesTotal: bytesDone, stalls: 0 };
      } catch (error) {
        if (signal.aborted) return undefined;
        const message = errorMessage(error);
        log.error(message);
        const reason = error instanceof FetchError ? error.reason : "Unreadable";
        return { ...amountOf(progress), stalls: 0, state: "failed", error: { reason, message } };
      }
    };
    const done = check()
      .then(async (counts) => {
        if (counts !== undefined) await this.#end(request, counts);
      })
      .catch((error: unknown) => log.error({ err: error }, `the ended check of ${request.ref} cannot be deleted`))
      .finally(() => void this.#checks.delete(request.id));
    this.#checks.set(request.id, { progress, cancelling, done });
    return {};
  }

  async #end(request: PullRequest, counts: Counts): Promise<void> {
    const { id, ref, files, requestedAt } = request;
    const entry = { ...counts, id, ref, files, ...ofCheck(request), requestedAt, endedAt: new Date().toISOString() };
    this.#fetched.delete(id);
    this.#failures.forget(id);
    this.#ended.set(id, entry);
    for (const oldest of this.#ended.keys()) {
      if (this.#ended.size <= mostEnded) break;
      this.#ended.delete(oldest);
    }
    await this.#publish();
    await this.#options.sets.pullRequests.remove(id);
  }

  #slotsOf(model: WantedModel): string[] {
    const { pulls } = this.#options;
    const key = pulls.jobKey(model);
    return slotsOf(pulls.list().find((listed) => listed.key === key));
  }

  #schedule(): void {
    if (this.#closing.signal.aborted) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#publish();
    }, this.#options.publishMs ?? 500).unref();
  }

  async #publish(): Promise<void> {
    const publish = async (): Promise<void> => {
      try {
        await this.#options.sets.pulls.put({ schema: 1, pulls: [...this.#statuses()] });
        this.#failureLog.succeeded();
      } catch (error) {
        this.#failureLog.failed(error);
        this.#schedule();
      }
    };
    this.#publishing = this.#publishing.then(publish);
    await this.#publishing;
  }

  #statuses(): readonly PullStatus[] {
    const { sets, pulls } = this.#options;
    const jobs = new Map(pulls.list().map((listed) => [listed.key, listed]));
    const requestedKeys = new Set<string>();
    const requested = sets.pullRequests.list().flatMap((request): PullStatus[] => {
      if (this.#ended.has(request.id) || request.action === "remove") return [];
      const { id, ref, files, sizeBytes, requestedAt } = request;
      const check = this.#checks.get(id)?.progress;
      if (check !== undefined)
        return [{ ...amountOf(check), state: "running", stalls: 0, id, ref, files, isCheck: true, requestedAt }];
      const key = pulls.jobKey(modelOf(request));
      requestedKeys.add(key);
      const size = sizeBytes === undefined ? {} : { sizeBytes };
      const listed = jobs.get(key);
      // What a person has paused of a slot stays the slot's pull for as long as the slot wants it.
      const isForSlot = id.startsWith(slotPrefix) && slotsOf(listed).length > 0;
      const forSlots = isForSlot ? { isForSlot, slots: slotsOf(listed) } : {};
      const counts = this.#fetched.get(id) ?? countsOf(listed?.job);
      return [{ ...counts, id, ref, files, ...size, ...ofCheck(request), requestedAt, ...forSlots }];
    });
    const needed = [...jobs.values()].flatMap((listed): PullStatus[] => {
      const { key, model, job } = listed;
      if (requestedKeys.has(key)) return [];
      const { ref, files, sizeBytes } = model;
      const size = sizeBytes === undefined ? {} : { sizeBytes };
      const id = `${slotPrefix}${sha256(key).slice(0, 16)}`;
      const slots = slotsOf(listed);
      return [{ ...countsOf(job), id, ref, files: [...files], ...size, isForSlot: true, slots }];
    });
    return [...requested, ...needed, ...[...this.#ended.values()].toReversed()];
  }
}

function slotsOf(listed: ListedPull | undefined): string[] {
  return (listed?.requesters ?? []).filter((requester) => !PullRequests.isKey(requester)).toSorted();
}

function ofCheck({ action }: PullRequest): Pick<PullStatus, "isCheck"> {
  return action === "verify" ? { isCheck: true } : {};
}

function modelOf({ ref, files, sizeBytes, isOpen }: PullRequest): WantedModel {
  return { ref, files, isOpen, ...(sizeBytes === undefined ? {} : { sizeBytes }) };
}

type PublishModels = () => Promise<Done>;
