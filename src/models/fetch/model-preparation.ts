import type { FetchFailure, FetchState } from "../../lib/fetch-jobs.ts";
import type { FetchReason } from "./fetch-error.ts";
import { amountOf, type PullAmount, type PullProgress, type WatchedProgress } from "./progress.ts";

export interface PullFailure extends FetchFailure {
  readonly reason: FetchReason;
  readonly message: string;
}

export type PullState = FetchState<PullProgress & Pick<WatchedProgress, "movedAt">, PullFailure>;

/** Whether a model must be fetched for a slot, and the progress of that pull. */
export type ModelPreparation =
  | { readonly state: "absent"; readonly message: string }
  | { readonly state: "fetching"; readonly message: string; readonly progress: PullAmount }
  | {
      readonly state: "failed";
      readonly reason: string;
      readonly message: string;
      readonly isTerminal: boolean;
      readonly retryAt?: Date;
    };

/** How a job that fetches the model stands. */
export function preparationIn(ref: string, job: PullState): ModelPreparation {
  if (job.state === "failed") {
    const { failure, retryAt } = job;
    return { state: "failed", ...failure, ...(retryAt === undefined ? {} : { retryAt }) };
  }
  const message =
    job.state === "paused"
      ? `the pull of the model ${ref} is paused: \`berth pull resume ${ref}\` goes on with it`
      : `the model ${ref} is being fetched${troubleOf(job.progress)}`;
  return { state: "fetching", message, progress: amountOf(job.progress) };
}

/** For messages, after the name of a model that is being fetched; empty while bytes come. */
export function troubleOf({ trouble }: Pick<PullProgress, "trouble">): string {
  return trouble === undefined ? "" : `; no byte comes, and it is tried again: ${trouble}`;
}
