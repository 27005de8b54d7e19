import { nextConditions, type ConditionClaim } from "../api/conditions.ts";
import { describeDiagnostics } from "../api/diagnostic.ts";
import type { ModelRecord } from "../api/model.ts";
import { modelRefSchema } from "../api/names.ts";
import { resourceKey, type ResourceStatus } from "../api/resource-status.ts";
import type { Desired } from "../store/store.ts";

export interface DeclaredResources {
  readonly models: readonly Desired<"Model">[];
  readonly upstreams: readonly Desired<"Upstream">[];
}

/** The ref that a Model gives its files; undefined: no request could name it. */
export function refOf({ name, spec }: Pick<Desired<"Model">, "name" | "spec">): string | undefined {
  return modelRefSchema.safeParse(spec?.ref ?? name).data;
}

/** The status of every Model and Upstream that is declared, valid or not. Pure. */
export function resourceStatuses(
  { models, upstreams }: DeclaredResources,
  records: ReadonlyMap<string, ModelRecord>,
  before: readonly ResourceStatus[],
  now: Date,
): ResourceStatus[] {
  const known = new Map(before.map((status) => [resourceKey(status), status]));
  const statusOf = (desired: Desired<"Model"> | Desired<"Upstream">, claims: ConditionClaim[]): ResourceStatus => {
    const { kind, name, file, specHash } = desired;
    const last = known.get(resourceKey(desired));
    const generation = last === undefined ? 1 : last.generation + (last.specHash === specHash ? 0 : 1);
    const conditions = nextConditions(last?.conditions ?? [], claims, generation, now);
    const model = desired.kind === "Model" && desired.spec !== undefined ? { model: desired.spec } : {};
    return { kind, name, file, generation, specHash, ...model, conditions };
  };
  return [
    ...models.map((model) => statusOf(model, modelClaims(model, records))),
    ...upstreams.map((upstream) => statusOf(upstream, manifestClaims(upstream) ?? [accepted])),
  ];
}

/** Whether a provider answers is for gateways to tell, which ask it. */
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
    const message = `${model.file}: "${model.name.slice(0, 200)}" cannot be a model's ref, which is ${wanted}; name another in ref`;
    return stalled("InvalidName", message);
  }
  if (record?.origin === "manifest" && record.name !== model.name) {
    const message = `${model.file}: the ref ${ref} belongs to Model ${record.name ?? ref}`;
    return [notReady("NameConflict", message), { ...notReady("NameConflict", message), ...conflicting }];
  }
  if (record === undefined || record.state === "available")
    return [{ type: "Ready", status: "True", reason: "Available", message: "its files are there" }];
  return stalled(record.reason ?? "Unreadable", record.message ?? `${ref} is ${record.state}`);
}

const conflicting = { type: "NameConflict", status: "True" } as const satisfies Partial<ConditionClaim>;

/** What the manifest itself says that is wrong; undefined: nothing. */
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
