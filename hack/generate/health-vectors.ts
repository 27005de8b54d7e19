import { stringify } from "yaml";
import { nextConditions } from "../../src/api/conditions.ts";
import { claimsOf, type ConditionSet, type Decision } from "../../src/operator/plan/decision.ts";
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
  ];
  const head = `# What health.lua says of a Slot: a test runs it on each of them. Written by hack/generate.ts from the conditions that the
# operator publishes (src/operator/plan/decision.ts); change hack/generate/health-vectors.ts and run \`make generate\`.
`;
  return head + stringify(vectors, { lineWidth: 0, aliasDuplicateObjects: false });
}
