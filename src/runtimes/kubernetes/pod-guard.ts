import { posix } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isRecord } from "../../lib/record.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";
import { isPodName } from "./pod-label.ts";
import type { ModelVolume } from "./pod-volumes.ts";

/** Access to one of these gives control of the node, wherever in the tree above them it begins. */
const guardedTrees = [
  "/proc",
  "/sys",
  "/dev",
  "/boot",
  "/etc",
  "/run",
  "/var/run",
  "/var/lib/kubelet",
  "/var/lib/rancher",
  "/var/lib/containerd",
  "/var/lib/docker",
  "/var/lib/containers",
  "/var/lib/etcd",
  // The administrator's keys: of microk8s, k0s, minikube.
  "/var/snap",
  "/var/lib/k0s",
  "/var/lib/minikube",
];

/** Files that the node itself executes or trusts: reading them is common (drivers, certificates), writing is control. */
const systemTrees = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt/cni", "/root", "/var/spool/cron"];

const shared = ["hostNetwork", "hostPID", "hostIPC"] as const;

/** Each is enough to leave a container. */
const strong = new Set(["ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO", "DAC_READ_SEARCH", "BPF"]);

/** The store's own Secrets (`src/store/kubernetes`): the bearers of every engine, and the records of tokens. */
const ownSecrets = ["berth-bearers", "berth-tokens"];

type Volume = Readonly<Record<string, unknown>>;

interface OwnParts {
  /** The Pod's name, and its Secret's. */
  readonly podName: string;
  /** The Secrets that the manifest's variables name: the operator itself reads that of a bearer. */
  readonly secrets: readonly string[];
  readonly own: readonly unknown[];
  readonly models: ModelVolume | undefined;
  readonly isPrivileged: boolean;
}

/**
 * Throws BadWorkload, naming the field, for a Pod that would give its node, or the operator's own rights, to whoever may
 * write Slots. `own`: the volumes that Berth has added by itself, which a template may have changed since; `models`: the
 * volume of every slot's models; `isPrivileged`: Berth has made the engine so. A path is judged by its name alone: the
 * operator does not see the links of a node.
 */
export function refuseNodeAccess(
  spec: Readonly<Record<string, unknown>>,
  { podName, secrets, own, models, isPrivileged }: OwnParts,
): void {
  for (const field of shared) if (spec[field] === true) refuse(`podTemplate.spec.${field}`);
  // Without the field the token is mounted, too: a template may have removed it.
  if (spec["automountServiceAccountToken"] !== false) refuse("podTemplate.spec.automountServiceAccountToken");
  const secret = [...secrets, ...secretsIn(spec)].find(
    (name) => ownSecrets.includes(name) || (name !== podName && isPodName(name)),
  );
  if (secret !== undefined)
    throw new BadWorkload(
      `the Secret ${secret} would give the Pod the credentials of this installation; ` +
        "start the operator with SVC_ALLOW_HOST_MOUNTS=1 to allow it",
    );
  for (const volume of records(spec["volumes"])) {
    if (models !== undefined && leadsTo(volume, models.source)) refuseWrites(spec, volume);
    const { name, hostPath } = volume;
    if (hasServiceAccountToken(volume)) refuse(`podTemplate.spec.volumes: ${String(name)}: a service account token`);
    if (!isRecord(hostPath) || typeof hostPath["path"] !== "string") continue;
    if (own.some((each) => isDeepStrictEqual(each, volume))) continue;
    const { path } = hostPath;
    if (path.split("/").includes("..")) throw new BadWorkload(`mounts: write ${path} without ".."`);
    const plain = plainPath(path);
    const tree = guardedTrees.find((each) => isWithin(plain, each) || isWithin(each, plain));
    const system = systemTrees.find((each) => isWithin(plain, each) || isWithin(each, plain));
    const found = tree ?? (writersOf(spec, volume).length > 0 ? system : undefined);
    const how = found === tree ? "" : " for writing";
    if (found !== undefined) refuse(`the mount of ${path}${how}${found === plain ? "" : `, because of ${found},`}`);
  }
  for (const list of ["containers", "initContainers"] as const)
    for (const { name, securityContext } of records(spec[list])) {
      if (!isRecord(securityContext)) continue;
      const place = `podTemplate.spec.${list}: ${String(name)}`;
      if (securityContext["privileged"] === true && !(isPrivileged && name === "engine"))
        refuse(`${place}: privileged`);
      if (securityContext["privileged"] === true) refuseRoot(spec, securityContext, place);
      const { capabilities } = securityContext;
      const added: readonly unknown[] =
        isRecord(capabilities) && Array.isArray(capabilities["add"]) ? capabilities["add"] : [];
      const capability = added.filter((each) => typeof each === "string").find(isStrong);
      if (capability !== undefined) refuse(`${place}: the capability ${capability}`);
    }
}

/** Groups that own memory and disks of a node: root, disk, and Debian's kmem. */
const strongGroups: readonly unknown[] = [0, 6, 15];

/** A privileged container sees every device of its node: as root, or in one of their groups, it controls the node. */
function refuseRoot(
  { securityContext: ofPod }: Readonly<Record<string, unknown>>,
  own: Readonly<Record<string, unknown>>,
  place: string,
): void {
  const pod = isRecord(ofPod) ? ofPod : {};
  const { runAsUser, runAsNonRoot, runAsGroup } = { ...pod, ...own };
  if (runAsNonRoot !== true || runAsUser === 0) refuse(`${place}: root in a privileged container`);
  const { supplementalGroups: more, fsGroup } = pod;
  const groups: readonly unknown[] = [runAsGroup, fsGroup, ...(Array.isArray(more) ? more : [])];
  const group = groups.find((each) => strongGroups.includes(each));
  if (group !== undefined) refuse(`${place}: the group ${JSON.stringify(group)} in a privileged container`);
}

/** Whether the volume has the models, or a directory around or within theirs. */
function leadsTo({ hostPath, persistentVolumeClaim: claim }: Volume, source: ModelVolume["source"]): boolean {
  if ("claim" in source) return isRecord(claim) && claim["claimName"] === source.claim;
  if (!isRecord(hostPath) || typeof hostPath["path"] !== "string") return false;
  const path = plainPath(hostPath["path"]);
  return isWithin(path, plainPath(source.path)) || isWithin(plainPath(source.path), path);
}

/** A slot that may write models may replace those of every other slot. */
function refuseWrites(spec: Readonly<Record<string, unknown>>, volume: Volume): void {
  const [writer] = writersOf(spec, volume);
  if (writer === undefined) return;
  throw new BadWorkload(
    `the mount at ${writer.mountPath} of the container ${writer.container} would let the Pod ` +
      "write the models of every slot: mount it read-only, or start the operator with SVC_ALLOW_HOST_MOUNTS=1 " +
      "to allow it",
  );
}

/** The mounts by which a container may write the volume. */
function writersOf(
  spec: Readonly<Record<string, unknown>>,
  { name }: Volume,
): readonly { readonly container: string; readonly mountPath: string }[] {
  return (["containers", "initContainers"] as const).flatMap((list) =>
    records(spec[list]).flatMap((container) =>
      records(container["volumeMounts"])
        .filter((mount) => mount["name"] === name && mount["readOnly"] !== true)
        .map((mount) => ({ container: String(container["name"]), mountPath: String(mount["mountPath"]) })),
    ),
  );
}

/** Container runtimes take a capability's name in any case, and with or without its prefix. */
function isStrong(capability: string): boolean {
  return strong.has(capability.toUpperCase().replace(/^CAP_/, ""));
}

/** By its own volume a Pod gets the token that `automountServiceAccountToken` would mount. */
function hasServiceAccountToken({ projected }: Readonly<Record<string, unknown>>): boolean {
  return isRecord(projected) && records(projected["sources"]).some(({ serviceAccountToken: token }) => isRecord(token));
}

/** The names of all Secrets that the Pod's volumes and variables read. */
function secretsIn(spec: Readonly<Record<string, unknown>>): readonly string[] {
  const at = (value: unknown, ...path: readonly string[]): unknown =>
    path.reduce<unknown>((inner, key) => (isRecord(inner) ? inner[key] : undefined), value);
  const volumes = records(spec["volumes"]).flatMap((volume) => [
    at(volume, "secret", "secretName"),
    ...records(at(volume, "projected", "sources")).map((source) => at(source, "secret", "name")),
  ]);
  const variables = (["containers", "initContainers"] as const).flatMap((list) =>
    records(spec[list]).flatMap(({ env, envFrom }) => [
      ...records(env).map((each) => at(each, "valueFrom", "secretKeyRef", "name")),
      ...records(envFrom).map((each) => at(each, "secretRef", "name")),
    ]),
  );
  return [...volumes, ...variables].filter((name) => typeof name === "string");
}

function refuse(what: string): never {
  throw new BadWorkload(
    `${what} would give the Pod its node or the operator's rights; ` +
      "start the operator with SVC_ALLOW_HOST_MOUNTS=1 to allow it",
  );
}

function records(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  return list.filter(isRecord);
}

/** As the kubelet finds it: `/./etc` and, from the root, `etc` are `/etc`. */
function plainPath(path: string): string {
  return posix.normalize(`/${path}`).replace(/(?<=.)\/$/, "");
}
