import { nextConditions, type ConditionClaim } from "../../api/conditions.ts";
import { describeDiagnostics } from "../../api/diagnostic.ts";
import type { ModelRecord } from "../../api/model.ts";
import { modelRefSchema } from "../../api/names.ts";
import { resourceKey, type ResourceStatus } from "../../api/resource-status.ts";
import { describeOrigin } from "../../store/origin.ts";
import type { Desired } from "../../store/store.ts";

export interface DeclaredResources {
  readonly models: readonly Desired<"Model">[];
  readonly upstreams: readonly Desired<"Upstream">[];
  readonly groups: readonly Desired<"SlotGroup">[];
}

/** The ref of a Model's files; undefined: it is invalid. */
export function refOf({ name, spec }: Pick<Desired<"Model">, "name" | "spec">): string | undefined {
  return modelRefSchema.safeParse(spec?.ref ?? name).data;
}

/** The status of every declared Model, Upstream and SlotGroup, valid or not. Pure. */
export function resourceStatuses(
  { models, upstreams, groups }: DeclaredResources,
  records: ReadonlyMap<string, ModelRecord>,
  before: readonly ResourceStatus[],
  now: Date,
  problemsOf: (group: string) => readonly Problem[] = () => [],
): ResourceStatus[] {
  const known = new Map(before.map((status) => [resourceKey(status), status]));
  const statusOf = (desired: AnyDesired, claims: ConditionClaim[]): ResourceStatus => {
    const { kind, name, origin, specHash } = desired;
    const last = known.get(resourceKey(desired));
    const counted = last === undefined ? 1 : last.generation + (last.specHash === specHash ? 0 : 1);
    const generation = desired.generation ?? counted;
    const conditions = nextConditions(last?.conditions ?? [], claims, generation, now);
    return { kind, name, file: describeOrigin(origin), generation, specHash, ...inForce(desired), conditions };
  };
  return [
    ...models.map((model) => statusOf(model, modelClaims(model, records))),
    ...upstreams.map((upstream) => statusOf(upstream, manifestClaims(upstream) ?? [accepted])),
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

/** Gateways, which send the requests, report whether a provider answers. */
const accepted: ConditionClaim = {
  type: "Ready",
  status: "True",
  reason: "Accepted",
  message: "the manifest is valid and in force",
};

function modelClaims(model: Desired<"Model">, records: ReadonlyMap<string, ModelRecord>): ConditionClaim[] {
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
    return [notReady("NameConflict", message), { ...notReady("NameConflict", message), ...conflicting }];
  }
  if (record === undefined || record.state === "available")
    return [{ type: "Ready", status: "True", reason: "Available", message: "its files are there" }];
  return stalled(record.reason ?? "Unreadable", record.message ?? `${ref} is ${record.state}`);
}

const conflicting = { type: "NameConflict", status: "True" } as const satisfies Partial<ConditionClaim>;

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
  const message = describeDiagnostics(doubles);
  return [notReady("NameConflict", message), { ...notReady("NameConflict", message), ...conflicting }];
}

function stalled(reason: string, message: string): ConditionClaim[] {
  return [notReady(reason, message), { type: "Stalled", status: "True", reason, message }];
}

function notReady(reason: string, message: string): ConditionClaim {
  return { type: "Ready", status: "False", reason, message };
}
