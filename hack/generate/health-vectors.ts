import { stringify } from "yaml";
import { nextConditions } from "../../src/api/conditions.ts";
import { modelSpecSchema, type ModelRecord } from "../../src/api/model.ts";
import type { ListedPull } from "../../src/models/fetch/model-pulls.ts";
import { newProgress, Speed } from "../../src/models/fetch/progress.ts";
import { claimsOf, stateOf, type Decision } from "../../src/operator/plan/decision.ts";
import type { Severity } from "../../src/operator/plan/verdict.ts";
import { pullClaims, resourceStatuses } from "../../src/operator/report/resource-conditions.ts";
import { unseen } from "./crd.ts";

interface Vector {
  readonly name: string;
  readonly object: object;
  readonly health: "Healthy" | "Progressing" | "Degraded";
}

type Said = Pick<Decision, "severity" | "isServed" | "state" | "reason" | "message">;

const published = new Date("2026-01-01T00:00:00Z");
const generation = 2;
const metadata = { generation };

/** As the operator publishes it. */
function statusOf(said: Said, observedGeneration = generation): object {
  return { observedGeneration, conditions: nextConditions([], claimsOf(said), observedGeneration, published) };
}

function vector(health: Vector["health"], said: Said, spec: object = {}): Vector {
  const { severity, isServed, reason } = said;
  const served = isServed && severity !== "loaded" ? ", while another engine serves" : "";
  const name = `${severity}: ${reason}${served}${"enabled" in spec ? ", enabled: false" : ""}`;
  return { name, object: { metadata, spec, status: statusOf(said) }, health };
}

function said(severity: Severity, reason: string, message: string, isServed = severity === "loaded"): Said {
  return { severity, isServed, state: stateOf({ severity }, isServed), reason, message };
}

const loaded = said("loaded", "Loaded", "tiny is loaded");
const stalled = ["stalled", "ModelNotFound", "no model"] as const;
const retrying = ["retrying", "Exited", "starts again in 10 s"] as const;
const starting = ["progressing", "Starting", "loads its model"] as const;
const off = { enabled: false };

/** The health that Argo CD must show for a Slot, by severity. */
const rows: Readonly<Record<Severity, readonly Vector[]>> = {
  off: [
    vector("Healthy", said("off", "ScaledToZero", "the next request loads it")),
    vector("Healthy", said("off", "Disabled", "enabled is false"), off),
  ],
  waiting: [
    vector("Progressing", said("waiting", "Paused", "this operator only plans")),
    vector("Progressing", said("waiting", "GroupFull", "its group is full")),
  ],
  progressing: [vector("Progressing", said(...starting)), vector("Progressing", said(...starting, true))],
  loaded: [vector("Healthy", loaded)],
  leaving: [vector("Progressing", said("leaving", "Disabled", "the engine ends"), off)],
  retrying: [vector("Progressing", said(...retrying)), vector("Progressing", said(...retrying, true))],
  stalled: [
    vector("Degraded", said(...stalled)),
    vector("Degraded", said("stalled", "InvalidSpec", "spec.env"), off),
    vector("Degraded", said(...stalled, true)),
  ],
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
    waits("stalled in an earlier generation", statusOf(said(...stalled), generation - 1)),
    ...Object.values(rows).flat(),
    ...models,
  ];
  const head = `# What health.lua says of a Slot or Model: a test runs it on each of them. Written by hack/generate.ts from the conditions that
# the operator publishes (plan/decision.ts and report/resource-conditions.ts in src/operator/); change hack/generate/health-vectors.ts and run \`make generate\`.
`;
  return head + stringify(vectors, { lineWidth: 0, aliasDuplicateObjects: false });
}
