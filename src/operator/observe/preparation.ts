import type { ModelRecord } from "../../api/model.ts";
import { isSameProcess } from "../../api/process-ref.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { isRefusal, type SlotInputs } from "../../engines/engine.ts";
import { preparationIn } from "../../models/fetch/model-preparation.ts";
import type { WantedModel } from "../../models/fetch/wanted-model.ts";
import { notFetched, notFound } from "../plan/preparing.ts";
import type { Dependencies } from "../dependencies.ts";
import type { SlotInput } from "../plan/input.ts";

/**
 * The pull of a model that nobody knows before it is here, such as one that a person pulls from a hub: the slot waits for
 * the pull, and does not join it. Undefined where the model is known, or is not being pulled.
 */
export function arriving(
  { pulls }: Pick<Dependencies, "pulls">,
  { ref }: Pick<SlotInputs, "ref">,
  workloads: SlotInput["workloads"],
): SlotInput["unprepared"] {
  if (ref === undefined || !isRefusal(workloads) || workloads.reason !== notFound) return undefined;
  const pull = pulls.list().find(({ model }) => model.ref === ref);
  return pull === undefined ? undefined : { ...preparationIn(ref, pull.job), role: "main" };
}

/**
 * How the fetching stands of the first model that is not on this machine and can be fetched; undefined where there is
 * none. The models of what runs already are not asked about. Fetches nothing.
 */
export async function modelPreparation(
  { pulls }: Pick<Dependencies, "pulls">,
  { slot, ref, model, rerankModel }: SlotInputs,
  workloads: SlotInput["workloads"],
  observed: readonly Observed[],
  attempt: string,
): Promise<SlotInput["unprepared"]> {
  // A refusal for another reason comes first: nothing is fetched for a slot that cannot run.
  if (isRefusal(workloads) && workloads.reason !== notFetched) return arriving({ pulls }, { ref }, workloads);
  for (const [role, record] of [["main", model] as const, ["rerank", rerankModel] as const]) {
    if (record?.fetch === undefined || record.state !== "missing") continue;
    const next = isRefusal(workloads) ? [] : workloads.filter((workload) => workload.role === role);
    if (next.length > 0 && next.every((workload) => isRunning(workload, observed))) continue;
    const wanted = fetchOf(record, record.fetch);
    return { ...(await pulls.preparation(wanted, { requester: slot, attempt })), role, model: wanted };
  }
  return undefined;
}

/**
 * The models that may be fetched for the slot: those that it is to hold, also while a refusal that passes keeps it from
 * starting, and those that requests may choose after that. A slot that is not to be loaded has none.
 */
export function modelsToFetch(
  { models }: Pick<Dependencies, "models">,
  { want, held, spec, onRequest }: Pick<SlotInput, "want" | "held" | "spec" | "onRequest">,
): readonly WantedModel[] {
  if (!want.load) return [];
  const refs = [held.ref, spec?.model.rerank, ...(onRequest?.refs ?? [])];
  const records = refs.flatMap((ref) => (ref === undefined ? [] : (models().get(ref) ?? [])));
  return records.flatMap((record) => (record.fetch === undefined ? [] : fetchOf(record, record.fetch)));
}

/**
 * The images that may be fetched for the slot, also while it waits for a request: Docker keeps nothing of a fetch that ended before
 * its time. Undefined while a refusal keeps it from starting: they are not known.
 */
export function imagesToFetch({
  spec,
  workloads,
}: Pick<SlotInput, "spec" | "workloads">): readonly string[] | undefined {
  if (spec?.enabled !== true) return [];
  return isRefusal(workloads) ? undefined : workloads.flatMap(({ container }) => container?.image ?? []);
}

function fetchOf({ ref }: ModelRecord, { files, sizeBytes }: NonNullable<ModelRecord["fetch"]>): WantedModel {
  return { ref, files, isOpen: false, ...(sizeBytes === undefined ? {} : { sizeBytes }) };
}

/** Whether that very version of the process runs already. */
export function isRunning(workload: Workload, observed: readonly Observed[]): boolean {
  return observed.some(
    (seen) => isSameProcess(seen, workload) && seen.hash === workload.hash && seen.phase === "running",
  );
}

/**
 * The missing preparation of the next engine, and the digests of images that were named without one. Running processes
 * need none. Fetches and records nothing.
 */
export async function preparationOf(
  { runtime }: Pick<Dependencies, "runtime">,
  workloads: readonly Workload[],
  observed: readonly Observed[],
  attempt: string,
): Promise<Pick<SlotInput, "unprepared" | "digests">> {
  let unprepared: SlotInput["unprepared"];
  const digests: Record<string, string> = {};
  for (const workload of workloads) {
    const { role, container } = workload;
    if (container === undefined || isRunning(workload, observed)) continue;
    const preparation = await runtime.preparation?.(workload, attempt);
    if (preparation === undefined) continue;
    if (preparation.state !== "ready") unprepared ??= { ...preparation, role };
    else if (preparation.digest !== undefined && !container.image.includes("@"))
      digests[container.image] = preparation.digest;
  }
  return { digests, ...(unprepared === undefined ? {} : { unprepared }) };
}
