import { apiVersion, type Kind } from "../../api/names.ts";

/** Every name that this store gives to something in a cluster: docs/kubernetes.md lists them. */
export const fieldManager = "berth";
export const finalizer = "berth.dev/engine";
export const operatorLease = "berth-operator";
export const gatewayLease = (gateway: string): string => `berth-gateway-${gateway.toLowerCase()}`;
/** In a Pod its name, so that people find it, and the end of `gateway`, which differs for each start. */
export function gatewayName(env: NodeJS.ProcessEnv, gateway: string): string {
  const pod = env["POD_NAME"];
  // The name of a Lease is as long as that of a Pod at most.
  return pod === undefined || pod === "" ? gateway : `${pod.slice(0, 200)}-${gateway.slice(-8)}`;
}
/** `ID.json` is a token's record, `ID.confirmed` its confirmation. */
export const tokensSecret = "berth-tokens";
export const partLabel = "berth.dev/part";
export const recordAnnotation = "berth.dev/record";
export const pidAnnotation = "berth.dev/pid";
export const demandAnnotation = "berth.dev/demand";
/** `berth.dev/restart`, `berth.dev/swap-model` …: their value is a request. */
export const requestPrefix = "berth.dev/";
/** `berth.dev/accepted-restart` …: the whole request while it is in force, and its token once it is over. */
export const acceptedPrefix = "berth.dev/accepted-";

export const partOf = { "app.kubernetes.io/part-of": "berth" } as const;
export const managed = { ...partOf, "app.kubernetes.io/managed-by": fieldManager } as const;

/** Of the objects that have all of these labels. */
export function selectorOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(",");
}

const plurals = {
  Slot: "slots",
  Model: "models",
  Upstream: "upstreams",
  SlotGroup: "slotgroups",
} as const satisfies Record<Kind, string>;

/** As a person writes it behind `kubectl edit`. */
export function objectName(kind: Kind, name: string): string {
  return `${plurals[kind]}.${apiVersion.split("/", 1)[0] ?? ""}/${name}`;
}

export function collectionOf(kind: Kind, namespace: string): string {
  return `/apis/${apiVersion}/namespaces/${namespace}/${plurals[kind]}`;
}

export function corePath(plural: "configmaps" | "secrets" | "events", namespace: string): string {
  return `/api/v1/namespaces/${namespace}/${plural}`;
}

export function leasesPath(namespace: string): string {
  return `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
}
