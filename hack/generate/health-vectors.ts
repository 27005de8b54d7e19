import { stringify } from "yaml";
import { nextConditions } from "../../src/api/conditions.ts";
import { modelSpecSchema, type ModelRecord } from "../../src/api/model.ts";
import type { ListedPull } from "../../src/models/fetch/model-pulls.ts";
import { newProgress, Speed } from "../../src/models/fetch/progress.ts";
import { claimsOf, type ConditionSet, type Decision } from "../../src/operator/plan/decision.ts";
import { pullClaims, resourceStatuses } from "../../src/operator/report/resource-conditions.ts";
import { unseen } from "./crd.ts";

interface Vector {
  readonly name: string;
  readonly object: object;
  readonly health: "Healthy" | "Progressing" | "Degraded";
}

type Said = Pick<Decision, "conditionSet" | "state" | "reason" | "message">;

const published = new Date("2026-01-01T00:00:00Z");
const generation = 2;
const metadata = { generation };

/** As the operator publishes it. */
function statusOf(said: Said, observedGeneration = generation): object {
  return { observedGeneration, conditions: nextConditions([], claimsOf(said), observedGeneration, published) };
}

function vector(health: Vector["health"], said: Said, spec: object = {}): Vector {
  const { conditionSet, reason } = said;
  const name = `${conditionSet}: ${reason}${"enabled" in spec ? ", enabled: false" : ""}`;
  return { name, object: { metadata, spec, status: statusOf(said) }, health };
}

const idle = {
  conditionSet: "offline",
  state: "offline",
  reason: "ScaledToZero",
  message: "the next request loads it",
} as const;
const disabled = {
  conditionSet: "offline",
  state: "offline",
  reason: "Disabled",
  message: "enabled is false",
} as const;
const paused = {
  conditionSet: "paused",
  state: "offline",
  reason: "Paused",
  message: "this operator only plans",
} as const;
const waiting = {
  conditionSet: "waiting",
  state: "offline",
  reason: "GroupFull",
  message: "its group is full",
} as const;
const starting = {
  conditionSet: "progressing",
  state: "starting",
  reason: "Starting",
  message: "loads its model",
} as const;
const loaded = { conditionSet: "loaded", state: "ready", reason: "Loaded", message: "tiny is loaded" } as const;
const unloading = {
  conditionSet: "unloading",
  state: "unloading",
  reason: "Disabled",
  message: "the engine ends",
} as const;
const retrying = {
  conditionSet: "retrying",
  state: "error",
  reason: "Exited",
  message: "starts again in 10 s",
} as const;
const stalled = { conditionSet: "stalled", state: "error", reason: "ModelNotFound", message: "no model" } as const;
const invalid = { conditionSet: "stalled", state: "error", reason: "InvalidSpec", message: "spec.env" } as const;
const off = { enabled: false };

/** What Argo CD has to say of a Slot in each row of conditions. */
const rows: Readonly<Record<ConditionSet, readonly Vector[]>> = {
  offline: [vector("Healthy", idle), vector("Healthy", disabled, off)],
  paused: [vector("Progressing", paused)],
  waiting: [vector("Progressing", waiting)],
  progressing: [vector("Progressing", starting)],
  loaded: [vector("Healthy", loaded)],
  unloading: [vector("Progressing", unloading, off)],
  retrying: [vector("Progressing", retrying)],
  stalled: [vector("Degraded", stalled), vector("Degraded", invalid, off)],
  loadedProgressing: [vector("Progressing", { ...starting, conditionSet: "loadedProgressing", state: "ready" })],
  loadedRetrying: [vector("Progressing", { ...retrying, conditionSet: "loadedRetrying", state: "ready" })],
  loadedStalled: [vector("Degraded", { ...stalled, conditionSet: "loadedStalled", state: "ready" })],
};

const far = {
  ref: "tiny",
  origin: "manifest",
  name: "tiny",
  source: "hf://owner/repo/tiny.gguf",
  files: [],
  created: 0,
  capabilities: [],
  state: "missing",
  reason: "NotFetched",
  message: "tiny is not on this machine yet",
  fetch: { files: [{ source: "hf://owner/repo/tiny.gguf" }] },
} as const satisfies ModelRecord;
const progress = { ...newProgress(), speed: new Speed(), movedAt: 0, bytesDone: 2 ** 28, bytesTotal: 2 ** 30 };
const gone = { reason: "SourceNotFound", message: "no such file", isTerminal: true } as const;

/** As the operator publishes a Model with that record and pull. */
function model(health: Vector["health"], name: string, record: ModelRecord, job?: ListedPull["job"]): Vector {
  const spec = modelSpecSchema.parse({ source: record.source });
  const origin = { kind: "file", path: "tiny.yaml" } as const;
  const declared = { kind: "Model", name: "tiny", spec, specHash: "", labels: {}, annotations: {}, origin } as const;
  const wanted = { ref: "tiny", files: far.fetch.files, isOpen: false };
  const pulls = pullClaims(job === undefined ? [] : [{ key: "", model: wanted, job, requesters: [] }]);
  const [status] = resourceStatuses(
    { models: [{ ...declared, generation, since: published, diagnostics: [] }], upstreams: [], groups: [] },
    { records: new Map([["tiny", record]]), pulls },
    [],
    published,
  );
  const object = {
    metadata,
    spec: { source: record.source },
    status: { observedGeneration: generation, conditions: status?.conditions },
  };
  return { name: `a Model: ${name}`, object, health };
}

const models: readonly Vector[] = [
  model("Healthy", "there", { ...far, state: "available" }),
  model("Healthy", "not fetched, and no slot needs it", far),
  model("Progressing", "being fetched", far, { state: "running", progress }),
  model("Degraded", "its source is gone", far, { state: "failed", progress, failure: gone }),
];

/** manifests/gitops/argocd/health-vectors.yaml, before formatting. */
export function healthVectors(): string {
  const waits = (name: string, status?: object): Vector => {
    const object = { metadata, spec: {}, ...(status === undefined ? {} : { status }) };
    return { name, object, health: "Progressing" };
  };
  const vectors = [
    waits("nothing said yet"),
    waits("read by no operator yet", unseen),
    waits("loaded in an earlier generation", statusOf(loaded, generation - 1)),
    waits("stalled in an earlier generation", statusOf(stalled, generation - 1)),
    ...Object.values(rows).flat(),
    ...models,
  ];
  const head = `# What health.lua says of a Slot or Model: a test runs it on each of them. Written by hack/generate.ts from the conditions that
# the operator publishes (plan/decision.ts and report/resource-conditions.ts in src/operator/); change hack/generate/health-vectors.ts and run \`make generate\`.
`;
  return head + stringify(vectors, { lineWidth: 0, aliasDuplicateObjects: false });
}
