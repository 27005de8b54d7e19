import { byteText } from "../../api/byte-text.ts";
import { nextConditions, type ConditionClaim } from "../../api/conditions.ts";
import { describeDiagnostics } from "../../api/diagnostic.ts";
import type { ModelRecord } from "../../api/model.ts";
import { modelRefSchema } from "../../api/names.ts";
import { resourceKey, type ResourceStatus } from "../../api/resource-status.ts";
import { troubleOf } from "../../models/fetch/model-preparation.ts";
import type { ListedPull } from "../../models/fetch/model-pulls.ts";
import { describeOrigin } from "../../store/origin.ts";
import type { Desired } from "../../store/store.ts";

export interface DeclaredResources {
  readonly models: readonly Desired<"Model">[];
  readonly upstreams: readonly Desired<"Upstream">[];
  readonly groups: readonly Desired<"SlotGroup">[];
}

/** The observations that conditions follow from, besides the manifests. */
export interface KnownResources {
  readonly records: ReadonlyMap<string, ModelRecord>;
  readonly pulls?: PullClaims;
  readonly problemsOf?: (group: string) => readonly Problem[];
}

/** Conditions of the models that are being fetched, by ref. */
export type PullClaims = ReadonlyMap<string, readonly ConditionClaim[]>;

/** The ref of a Model's files; undefined: it is invalid. */
export function refOf({ name, spec }: Pick<Desired<"Model">, "name" | "spec">): string | undefined {
  return modelRefSchema.safeParse(spec?.ref ?? name).data;
}

/** The status of every declared Model, Upstream and SlotGroup, valid or not. Pure. */
export function resourceStatuses(
  { models, upstreams, groups }: DeclaredResources,
  { records, pulls = new Map(), problemsOf = () => [] }: KnownResources,
  before: readonly ResourceStatus[],
  now: Date,
): ResourceStatus[] {
  const known = new Map(before.map((status) => [resourceKey(status), status]));
  const statusOf = (desired: AnyDesired, claims: readonly ConditionClaim[]): ResourceStatus => {
    const { kind, name, origin, specHash } = desired;
    const last = known.get(resourceKey(desired));
    const counted = last === undefined ? 1 : last.generation + (last.specHash === specHash ? 0 : 1);
    const generation = desired.generation ?? counted;
    const conditions = nextConditions(last?.conditions ?? [], claims, generation, now);
    return { kind, name, file: describeOrigin(origin), generation, specHash, ...inForce(desired), conditions };
  };
  return [
    ...models.map((model) => statusOf(model, modelClaims(model, records, pulls))),
    ...upstreams.map((upstream) => statusOf(upstream, manifestClaims(upstream) ?? upstreamClaims(upstream))),
    ...groups.map((group) => statusOf(group, manifestClaims(group) ?? groupClaims(problemsOf(group.name)))),
  ];
}

/** A reason why a group's budget is not applied as written. */
interface Problem {
  readonly reason: string;
  readonly message: string;
}

function groupClaims([problem]: readonly Problem[]): ConditionClaim[] {
  return problem === undefined ? [accepted] : stalled(problem.reason, problem.message);
}

type AnyDesired = Desired<"Model"> | Desired<"Upstream"> | Desired<"SlotGroup">;

/** The part that the next operator needs; upstreams are published separately. */
function inForce(desired: AnyDesired): Pick<ResourceStatus, "model" | "group"> {
  if (desired.kind === "Model") return desired.spec === undefined ? {} : { model: desired.spec };
  return desired.kind === "SlotGroup" && desired.spec !== undefined ? { group: desired.spec } : {};
}

const accepted: ConditionClaim = {
  type: "Ready",
  status: "True",
  reason: "Accepted",
  message: "the manifest is valid and in force",
};

/** Gateways, which send the requests and have the keys, know whether a provider answers. */
function upstreamClaims({ name, spec, origin }: Desired<"Upstream">): ConditionClaim[] {
  const auth = spec?.auth;
  if (origin.kind === "file" && auth !== undefined && auth.type !== "none" && "secretKeyRef" in auth.valueFrom) {
    const message = `${origin.path}: auth.valueFrom.secretKeyRef needs a cluster, and there is none here; use env or file`;
    return stalled("NoKey", message);
  }
  const message = `${accepted.message}; \`berth upstream show ${name}\` says whether its key is there and it answers`;
  return [{ ...accepted, message }];
}

function modelClaims(
  model: Desired<"Model">,
  records: ReadonlyMap<string, ModelRecord>,
  pulls: PullClaims,
): readonly ConditionClaim[] {
  const broken = manifestClaims(model);
  if (broken !== undefined) return broken;
  const ref = refOf(model);
  const record = ref === undefined ? undefined : records.get(ref);
  if (ref === undefined) {
    const wanted = modelRefSchema.safeParse(model.name).error?.issues[0]?.message ?? "";
    const message = `${describeOrigin(model.origin)}: "${model.name.slice(0, 200)}" cannot be a model's ref, which ${wanted}; name another in ref`;
    return stalled("InvalidName", message);
  }
  if (record?.origin === "manifest" && record.name !== model.name) {
    const message = `${describeOrigin(model.origin)}: the ref ${ref} belongs to Model ${record.name ?? ref}`;
    return stalled("NameConflict", message);
  }
  if (record === undefined || record.state === "available")
    return [{ type: "Ready", status: "True", reason: "Available", message: "its files are there" }];
  const fetching = record.fetch === undefined ? undefined : pulls.get(ref);
  if (fetching !== undefined) return fetching;
  const { reason = "Unreadable", message = `${ref} is ${record.state}` } = record;
  // Nothing is wrong with it: tools that wait for every resource need not wait for a model that no slot holds.
  if (reason === "NotFetched") return [{ type: "Ready", status: "True", reason, message }];
  return stalled(reason, message);
}

/** A message about progress changes this often: each change is a write of the registry. */
const percentStep = 5;

/** The claims of the pulls under way about their models. Pure, and equal until there is news. */
export function pullClaims(pulls: readonly ListedPull[]): PullClaims {
  const claims = new Map<string, readonly ConditionClaim[]>();
  // Two pulls of a ref differ in their sources: the failed pull must not hide the other.
  const isFailed = ({ job }: ListedPull): number => (job.state === "failed" ? 0 : 1);
  for (const { model, job } of pulls.toSorted((a, b) => isFailed(a) - isFailed(b)))
    claims.set(model.ref, jobClaims(model.ref, job));
  return claims;
}

function jobClaims(ref: string, job: ListedPull["job"]): readonly ConditionClaim[] {
  if (job.state === "failed") {
    const { reason, message, isTerminal } = job.failure;
    if (isTerminal) return stalled(reason, message);
    const retrying = { type: "Reconciling", status: "True", reason: "ProgressingWithRetry", message } as const;
    return [notReady(reason, message), retrying];
  }
  const { bytesDone, bytesTotal } = job.progress;
  const percent = Math.floor((100 * bytesDone) / Math.max(1, bytesTotal ?? 0) / percentStep) * percentStep;
  const amount = bytesTotal === undefined ? "" : `: ${percent}% of ${byteText(bytesTotal)}`;
  const message =
    job.state === "paused"
      ? `the pull of ${ref} is paused${amount}; \`berth pull resume ${ref}\` goes on with it`
      : `${ref} is being fetched${amount}${troubleOf(job.progress)}`;
  return [
    { type: "Ready", status: "Unknown", reason: "Progressing", message },
    { type: "Reconciling", status: "True", reason: "Pulling", message },
  ];
}

/** The manifest's own problems; undefined: none. */
function manifestClaims({
  diagnostics,
  spec,
}: Pick<Desired<"Model">, "diagnostics"> & { readonly spec: unknown }): ConditionClaim[] | undefined {
  const invalid = diagnostics.filter(({ reason }) => reason !== "DuplicateResource");
  const doubles = diagnostics.filter(({ reason }) => reason === "DuplicateResource");
  const force = spec === undefined ? "" : "\nwhat it said when it was last valid stays in force";
  if (invalid.length > 0) return stalled("InvalidSpec", `${describeDiagnostics(invalid)}${force}`);
  if (doubles.length === 0) return undefined;
  return stalled("NameConflict", describeDiagnostics(doubles));
}

function stalled(reason: string, message: string): ConditionClaim[] {
  return [notReady(reason, message), { type: "Stalled", status: "True", reason, message }];
}

function notReady(reason: string, message: string): ConditionClaim {
  return { type: "Ready", status: "False", reason, message };
}
