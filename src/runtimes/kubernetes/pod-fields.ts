import { nearest } from "../../api/nearest.ts";
import { isRecord } from "../../lib/record.ts";

/** `true`: any value; a function: the values for which it is true; a map: these fields alone, also of each of a list. */
type Allowed = true | ((value: unknown) => boolean) | { readonly [field: string]: Allowed };

const seccompProfile = { type: (type: unknown) => type !== "Unconfined", localhostProfile: true } as const;

const user = {
  runAsUser: true,
  runAsGroup: true,
  runAsNonRoot: true,
  seccompProfile,
} as const;

const probe = {
  exec: true,
  grpc: true,
  // With a host the kubelet would ask any address.
  httpGet: { path: true, port: true, scheme: true, host: () => false },
  tcpSocket: { port: true },
  initialDelaySeconds: true,
  timeoutSeconds: true,
  periodSeconds: true,
  successThreshold: true,
  failureThreshold: true,
  terminationGracePeriodSeconds: true,
} as const;

/** Capabilities of the Pod Security level `baseline`, and those by which engines lock memory and set their priority. */
const capabilities = new Set([
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "IPC_LOCK",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
  "SYS_NICE",
]);

const container = {
  name: true,
  image: true,
  imagePullPolicy: true,
  command: true,
  args: true,
  workingDir: true,
  env: true,
  envFrom: true,
  // Without `hostPort`.
  ports: { name: true, containerPort: true, protocol: true },
  resources: true,
  restartPolicy: true,
  // Without `mountPropagation`.
  volumeMounts: { name: true, mountPath: true, subPath: true, subPathExpr: true, readOnly: true },
  startupProbe: probe,
  readinessProbe: probe,
  livenessProbe: probe,
  terminationMessagePolicy: true,
  securityContext: {
    ...user,
    readOnlyRootFilesystem: true,
    allowPrivilegeEscalation: true,
    privileged: (value: unknown) => value === false,
    capabilities: { drop: true, add: isHarmless },
  },
} as const satisfies Allowed;

/** The engine to which Berth gives device files of the node: only a privileged container may open these. */
const privilegedEngine = { ...container, securityContext: { ...container.securityContext, privileged: true } } as const;

const secretSource = { secret: true, configMap: true, downwardAPI: true } as const;

/**
 * The fields of the Pods of slots. What is not here could give a Pod its node, another Pod's place, or rights of a service
 * account; `pod-guard.ts` judges the values of secrets and volumes.
 */
const pod = {
  containers: container,
  initContainers: container,
  volumes: {
    name: true,
    emptyDir: true,
    ...secretSource,
    projected: { defaultMode: true, sources: secretSource },
    image: true,
    hostPath: true,
    persistentVolumeClaim: true,
  },
  securityContext: { ...user, fsGroup: true, fsGroupChangePolicy: true, supplementalGroups: true },
  automountServiceAccountToken: (value: unknown) => value === false,
  restartPolicy: true,
  terminationGracePeriodSeconds: true,
  enableServiceLinks: true,
  shareProcessNamespace: true,
  resourceClaims: true,
  resources: true,
  imagePullSecrets: true,
  runtimeClassName: true,
  priorityClassName: true,
  schedulerName: true,
  nodeSelector: true,
  affinity: true,
  tolerations: true,
  topologySpreadConstraints: true,
  dnsPolicy: true,
  dnsConfig: true,
  hostAliases: true,
} as const satisfies Allowed;

/** A field, or a value, that Pods of slots may not have. */
interface RefusedField {
  readonly path: string;
  /** The allowed field whose name the field's nearly is. */
  readonly near?: string | undefined;
}

/** The first of this Pod's spec; undefined: there is none. */
export function beyondAllowed(
  spec: Readonly<Record<string, unknown>>,
  { isEnginePrivileged }: { readonly isEnginePrivileged: boolean },
): RefusedField | undefined {
  // Without the field the token is mounted, too: a template may have removed it.
  if (spec["automountServiceAccountToken"] !== false) return { path: "automountServiceAccountToken" };
  const engine = isEnginePrivileged ? privilegedEngine : container;
  const { containers, ...rest } = spec;
  const list: readonly unknown[] = Array.isArray(containers) ? containers : [];
  for (const each of list) {
    const found = beyond([each], isRecord(each) && each["name"] === "engine" ? engine : container, "containers");
    if (found !== undefined) return found;
  }
  return beyond(rest, pod, "");
}

function beyond(value: unknown, allowed: Allowed, path: string): RefusedField | undefined {
  if (allowed === true) return undefined;
  if (typeof allowed === "function") return allowed(value) ? undefined : { path };
  if (Array.isArray(value)) {
    const list: readonly unknown[] = value;
    return first(list, (each) => beyond(each, allowed, `${path}[${nameOf(each)}]`));
  }
  if (!isRecord(value)) return undefined;
  return first(Object.entries(value), ([key, inner]) => {
    const at = path === "" ? key : `${path}.${key}`;
    const fields = Object.hasOwn(allowed, key) ? allowed[key] : undefined;
    return fields === undefined ? { path: at, near: nearest(key, Object.keys(allowed)) } : beyond(inner, fields, at);
  });
}

function nameOf(value: unknown): string {
  return isRecord(value) && typeof value["name"] === "string" ? value["name"] : "";
}

function first<T>(list: readonly T[], look: (each: T) => RefusedField | undefined): RefusedField | undefined {
  for (const each of list) {
    const found = look(each);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Container runtimes take a capability's name in any case, and with or without its prefix. */
function isHarmless(added: unknown): boolean {
  const list: readonly unknown[] = Array.isArray(added) ? added : [];
  return list.every((each) => capabilities.has(String(each).toUpperCase().replace(/^CAP_/, "")));
}
