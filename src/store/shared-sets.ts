import type { ModelTask, ModelTaskAnswer } from "../api/model-task.ts";
import type { PublishedPulls, PullRequest } from "../api/pull.ts";
import { openSet, type DeclaredSet, type DocumentSet } from "./document-set.ts";
import type { OpenDocuments } from "./documents.ts";
import { sets } from "./sets.ts";
import { groupStore, type GroupStore } from "./state/groups.ts";
import { hardwareStore, type HardwareStore } from "./state/hardware.ts";

/** The documents beside requests by which operator and gateways tell each other what is wanted and how it stands. */
export interface SharedSets {
  readonly hardware: HardwareStore;
  readonly groups: GroupStore;
  readonly pullRequests: DocumentSet<PullRequest>;
  readonly pulls: DocumentSet<PublishedPulls>;
  readonly modelTasks: DocumentSet<ModelTask>;
  readonly modelAnswers: DocumentSet<ModelTaskAnswer>;
}

/** `stack` owns them. */
export async function openSharedSets(open: OpenDocuments, stack: AsyncDisposableStack): Promise<SharedSets> {
  const opened = async <T>(set: DeclaredSet<T>): Promise<DocumentSet<T>> => stack.use(await openSet(open, set));
  return {
    hardware: hardwareStore(await opened(sets.hardware), await opened(sets.probeRequests)),
    groups: groupStore(await opened(sets.loans), await opened(sets.groups)),
    pullRequests: await opened(sets.pullRequests),
    pulls: await opened(sets.pulls),
    modelTasks: await opened(sets.modelTasks),
    modelAnswers: await opened(sets.modelAnswers),
  };
}
