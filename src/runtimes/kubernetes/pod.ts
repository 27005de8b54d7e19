import type { V1EnvVar, V1Pod, V1Secret } from "@kubernetes/client-node";
import type { Container, Workload } from "../../api/workload.ts";
import type { Written } from "../../kubernetes/written.ts";
import { isRecord } from "../../lib/record.ts";
import type { Given } from "../process/child.ts";
import { BadWorkload } from "../start-failure.ts";
import { strategicMerge } from "./merge.ts";
import { devicesOf } from "./pod-devices.ts";
import { isOwnKey, podAnnotations, podLabels, podName } from "./pod-label.ts";
import { refuseNodeAccess } from "./pod-guard.ts";
import { pinned } from "./pod-node.ts";
import { isOnNode } from "./in-cluster.ts";
import { volumesOf, type ModelVolume } from "./pod-volumes.ts";
import { unexpanded } from "./references.ts";

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** The facts of an installation in a cluster that its Pods depend on. */
export interface PodSite {
  readonly namespace: string;
  readonly instance: string;
  readonly models?: ModelVolume;
  /** The operator's node, where the models are a directory of that node. */
  readonly node?: string;
  /** Pods may have the node's files, network and rights, and any label. */
  readonly isUnrestricted?: boolean;
  /** Volumes beside the models that Pods may have: `claim:NAME`, or `path:/DIRECTORY` of the node. */
  readonly volumes?: readonly string[];
  /** Labels and annotations that templates may set: a key, or a prefix that ends in a slash. */
  readonly labels?: readonly string[];
  /** The user and group of engines: they may read what the operator has fetched. */
  readonly user: number;
}

/** With the values of secrets that the operator holds. */
export interface PodStart {
  /** The slot's custom resource: deleting it deletes the Pod. Absent: the slot is no resource of this cluster. */
  readonly owner?: OwnerReference;
  readonly given: Given;
  readonly startedAt: Date;
}

/** The values that would otherwise be plain in the Pod: the bearer, and those that the operator has read from files. */
export interface PodSecret {
  readonly metadata: { readonly name: string };
  readonly type: "Opaque";
  readonly data: Readonly<Record<string, string>>;
}

export interface PodManifests {
  readonly pod: Readonly<Record<string, unknown>>;
  readonly secret?: PodSecret;
}

/** The container that runs the engine; templates name it to change it. */
export const engineContainer = "engine";

/** Longer than any `probe.startupSeconds`: Berth itself ends an engine that does not become healthy. */
const startupTries = 100_000;

/**
 * The whole Pod of a workload, and the Secret that it reads. Pure; tests compare it whole. Throws BadWorkload, naming
 * the field, for what no Pod can have.
 */
export function podOf(workload: Workload, container: Container, site: PodSite, start: PodStart): PodManifests {
  const name = podName(workload);
  const hasBearer = start.given.bearer !== undefined;
  const labels = podLabels(workload, site.instance);
  const metadata = {
    name,
    namespace: site.namespace,
    labels,
    ...(start.owner === undefined
      ? {}
      : { ownerReferences: [{ ...start.owner, controller: true, blockOwnerDeletion: false }] }),
  };
  const { env, secrets } = environment(workload, name, start.given);
  const devices = devicesOf(container);
  const { volumes, own, mounts } = volumesOf(container, devices.paths, site.models);
  const generated = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, annotations: podAnnotations(workload, { hasBearer, startedAt: start.startedAt }) },
    spec: {
      // Others read as Progressing for ever in Argo CD. The operator counts restarts, and replaces the Pod.
      restartPolicy: "Always",
      terminationGracePeriodSeconds: Math.max(1, Math.ceil(workload.stopSeconds)),
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      // The engine is then not the first process, which would ignore TERM without a handler.
      ...(container.hasInit ? { shareProcessNamespace: true } : {}),
      securityContext: podSecurity(site),
      ...(devices.resourceClaims.length === 0 ? {} : { resourceClaims: devices.resourceClaims }),
      containers: [
        {
          name: engineContainer,
          image: container.image,
          imagePullPolicy: "IfNotPresent",
          ...launch(workload, container),
          ...(workload.workingDir === undefined ? {} : { workingDir: workload.workingDir }),
          env,
          ports: [{ name: "http", containerPort: container.port, protocol: "TCP" }],
          resources: {
            ...(Object.keys(devices.limits).length === 0 ? {} : { limits: devices.limits }),
            // Without any the node kills the engine first where its memory runs short.
            ...(Object.keys(devices.requests).length === 0 ? {} : { requests: devices.requests }),
            ...(devices.claims.length === 0 ? {} : { claims: devices.claims }),
          },
          // Says that a socket listens; whether the engine is healthy, the operator asks itself.
          startupProbe: { tcpSocket: { port: container.port }, periodSeconds: 1, failureThreshold: startupTries },
          readinessProbe: { tcpSocket: { port: container.port }, periodSeconds: 10, failureThreshold: 3 },
          securityContext: containerSecurity(container, devices.paths),
          // The last lines of an engine that fails: its cause for people.
          terminationMessagePolicy: "FallbackToLogsOnError",
          volumeMounts: mounts,
        },
      ],
      volumes,
    },
  } satisfies Written<V1Pod>;
  const merged = templated(generated, container.pod?.template, site);
  const pod = site.node !== undefined && isOnNode(site) ? pinned(merged, site.node) : merged;
  if (site.isUnrestricted !== true && isRecord(pod["spec"]))
    refuseNodeAccess(pod["spec"], {
      podName: name,
      secrets: secretsNamed(workload),
      own,
      models: site.models,
      volumes: site.volumes ?? [],
      isPrivileged: devices.paths.length > 0,
    });
  return {
    pod,
    ...(Object.keys(secrets).length === 0
      ? {}
      : {
          secret: secretOf(metadata, secrets),
        }),
  };
}

function launch({ command }: Workload, { replacesEntrypoint }: Container): object {
  const words = command.map(unexpanded);
  if (!replacesEntrypoint) return words.length === 0 ? {} : { args: words };
  const [program = "", ...args] = words;
  return { command: [program], ...(args.length === 0 ? {} : { args }) };
}

function secretOf(metadata: PodSecret["metadata"], secrets: Readonly<Record<string, string>>): PodSecret {
  const encoded = Object.entries(secrets).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
  const kind = { apiVersion: "v1", kind: "Secret", type: "Opaque" } as const;
  return { ...kind, metadata, data: Object.fromEntries(encoded) } satisfies Written<V1Secret>;
}

/** Secret values come from the Secret of the Pod's name, or from a Secret that the manifest names. */
function environment(
  { env, bearer }: Workload,
  secretName: string,
  given: Given,
): { readonly env: readonly Written<V1EnvVar>[]; readonly secrets: Readonly<Record<string, string>> } {
  const secrets: Record<string, string> = {};
  const names = new Set([...Object.keys(env), ...Object.keys(given.env)]);
  const list = [...names].toSorted().flatMap((name): Written<V1EnvVar>[] => {
    const declared = env[name];
    if (typeof declared === "object" && "secretKeyRef" in declared && name !== bearer?.env)
      return [
        { name, valueFrom: { secretKeyRef: { name: declared.secretKeyRef.name, key: declared.secretKeyRef.key } } },
      ];
    const value = given.env[name];
    if (value === undefined) return [];
    if (typeof declared === "string" && name !== bearer?.env) return [{ name, value: unexpanded(value) }];
    secrets[name] = value;
    return [{ name, valueFrom: { secretKeyRef: { name: secretName, key: name } } }];
  });
  // The user of the engine has no home in the image.
  return { env: names.has("HOME") ? list : [...list, { name: "HOME", value: "/tmp" }], secrets };
}

/** The Secrets of the manifest's variables, also that of the bearer, whose value the operator copies. */
function secretsNamed({ env }: Workload): readonly string[] {
  return Object.values(env).flatMap((value) =>
    typeof value === "object" && "secretKeyRef" in value ? [value.secretKeyRef.name] : [],
  );
}

/** The `restricted` Pod Security level, unless device files of the node forbid it. */
function podSecurity({ user }: PodSite): object {
  return {
    runAsNonRoot: true,
    runAsUser: user,
    runAsGroup: user,
    seccompProfile: { type: "RuntimeDefault" },
  };
}

function containerSecurity({ capabilities, isRootReadOnly }: Container, devices: readonly string[]): object {
  const rest = isRootReadOnly ? { readOnlyRootFilesystem: true } : {};
  // Without a device plugin only a privileged container may open a device file of the node.
  if (devices.length > 0) return { privileged: true, ...rest };
  return {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"], ...(capabilities.length === 0 ? {} : { add: [...capabilities] }) },
    ...rest,
  };
}

/** The manifest's template over the Pod; what identifies the Pod stays. */
function templated(
  pod: Readonly<Record<string, unknown>>,
  template: unknown,
  site: PodSite,
): Readonly<Record<string, unknown>> {
  if (template === undefined) return pod;
  if (!isRecord(template)) throw new BadWorkload("podTemplate: a map with metadata and spec, as of a Pod");
  const unknown = Object.keys(template).find((key) => key !== "metadata" && key !== "spec");
  if (unknown !== undefined)
    throw new BadWorkload(`podTemplate.${unknown}: a Pod template has metadata and spec, and nothing else`);
  const merged = strategicMerge(pod, template);
  const { metadata: before, spec: specBefore } = pod;
  if (!isRecord(merged) || !isRecord(before) || !isRecord(specBefore)) return pod;
  const metadata = isRecord(merged["metadata"]) ? merged["metadata"] : {};
  const spec = isRecord(merged["spec"]) ? merged["spec"] : {};
  const { containers } = spec;
  const hasEngine =
    Array.isArray(containers) && containers.some((each) => isRecord(each) && each["name"] === engineContainer);
  if (!hasEngine) throw new BadWorkload(`podTemplate.spec.containers: the container ${engineContainer} must stay`);
  return {
    ...pod,
    metadata: {
      ...before,
      labels: withAllowed(mapIn(before, "labels"), mapIn(metadata, "labels"), site, "labels"),
      annotations: withAllowed(mapIn(before, "annotations"), mapIn(metadata, "annotations"), site, "annotations"),
    },
    spec: { ...spec, restartPolicy: specBefore["restartPolicy"] },
  };
}

/**
 * Berth's own, and what the template adds. A label makes a Pod a backend of each Service that selects it, and a peer of
 * NetworkPolicies: those below `berth.dev/` are never a template's, since the chart's selectors use them.
 */
function withAllowed(
  own: Readonly<Record<string, unknown>>,
  merged: Readonly<Record<string, unknown>>,
  { labels = [], isUnrestricted }: PodSite,
  field: string,
): Record<string, unknown> {
  for (const [key, value] of Object.entries(merged)) {
    if (value === own[key]) continue;
    if (isOwnKey(key) || key in own) throw new BadWorkload(`podTemplate.metadata.${field}: ${key} belongs to Berth`);
    if (isUnrestricted === true || labels.some((each) => key === each || (each.endsWith("/") && key.startsWith(each))))
      continue;
    throw new BadWorkload(
      `podTemplate.metadata.${field}: ${key} is not allowed in Pods of slots: name it in SVC_POD_LABELS, ` +
        "or start the operator with SVC_UNRESTRICTED_CONTAINERS=1 to allow it",
    );
  }
  return { ...merged, ...own };
}

function mapIn(metadata: Readonly<Record<string, unknown>>, key: string): Record<string, unknown> {
  const map = metadata[key];
  return isRecord(map) ? map : {};
}
