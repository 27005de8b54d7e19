import { posix } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { didYouMean } from "../../api/nearest.ts";
import { isRecord } from "../../lib/record.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";
import { beyondAllowed } from "./pod-fields.ts";
import { isPodName } from "./pod-label.ts";
import type { ModelVolume } from "./pod-volumes.ts";

/** The store's own Secrets (`src/store/kubernetes`): the bearers of every engine, and the records of tokens. */
const ownSecrets = ["berth-bearers", "berth-tokens"];

type Volume = Readonly<Record<string, unknown>>;

interface OwnParts {
  /** The Pod's name, and its Secret's. */
  readonly podName: string;
  /** The Secrets that the manifest's variables name: the operator itself reads that of a bearer. */
  readonly secrets: readonly string[];
  /** The volumes that Berth has added by itself, which a template may have changed since. */
  readonly own: readonly unknown[];
  /** The volume of every slot's models. */
  readonly models: ModelVolume | undefined;
  /** The other volumes that Pods of slots may mount: `claim:NAME`, or `path:/DIRECTORY` of the node. */
  readonly volumes: readonly string[];
  /** Berth has made the engine privileged. */
  readonly isPrivileged: boolean;
}

/**
 * Throws BadWorkload, naming the field, for a Pod that could give its node, or the operator's own rights, to whoever may
 * write Slots: fields and volumes are those of lists, everything else is refused. A path is judged by its name alone: the
 * operator does not see the links of a node.
 */
export function refuseNodeAccess(
  spec: Readonly<Record<string, unknown>>,
  { podName, secrets, own, models, volumes, isPrivileged }: OwnParts,
): void {
  const field = beyondAllowed(spec, { isEnginePrivileged: isPrivileged });
  if (field?.near !== undefined)
    throw new BadWorkload(
      `podTemplate.spec.${field.path} is no field that Pods of slots may have${didYouMean(field.near)}`,
    );
  if (field !== undefined) refuse(`podTemplate.spec.${field.path}`);
  const secret = [...secrets, ...secretsIn(spec)].find(
    (name) => ownSecrets.includes(name) || (name !== podName && isPodName(name)),
  );
  if (secret !== undefined) refuse(`the Secret ${secret} with credentials of this installation`);
  for (const volume of records(spec["volumes"])) {
    if (models !== undefined && leadsTo(volume, models.source)) refuseWrites(spec, volume);
    const { hostPath, persistentVolumeClaim: claim } = volume;
    if (own.some((each) => isDeepStrictEqual(each, volume))) {
      if (isRecord(hostPath)) refuseDevice(spec, volume, String(hostPath["path"]));
      continue;
    }
    if (isRecord(hostPath)) refusePath(String(hostPath["path"]), models, volumes);
    if (!isRecord(claim)) continue;
    const name = String(claim["claimName"]);
    const isModels = models !== undefined && "claim" in models.source && name === models.source.claim;
    if (!isModels && !volumes.includes(`claim:${name}`))
      refuse(`the claim ${name}`, `name claim:${name} in SVC_POD_VOLUMES`);
  }
  for (const list of ["containers", "initContainers"] as const)
    for (const { name, securityContext } of records(spec[list])) {
      if (isRecord(securityContext) && securityContext["privileged"] === true)
        refuseRoot(spec, securityContext, `podTemplate.spec.${list}: ${String(name)}`);
    }
}

function refusePath(path: string, models: ModelVolume | undefined, volumes: readonly string[]): void {
  if (path.split("/").includes("..")) throw new BadWorkload(`mounts: write ${path} without ".."`);
  const plain = plainPath(path);
  const listed = volumes.flatMap((each) => (each.startsWith("path:") ? [each.slice(5)] : []));
  const directories = models !== undefined && "path" in models.source ? [...listed, models.source.path] : listed;
  if (directories.some((each) => isWithin(plain, plainPath(each)))) return;
  refuse(`the mount of ${path}`, `name path:${plain} in SVC_POD_VOLUMES`);
}

/** Graphics cards and other accelerators. Further device files, such as a disk's, would give the node to the Pod. */
const accelerator = /^\/dev\/(?:dri|kfd|accel|dxg|nvidia[\w-]*)(?:\/[\w-]+)*$/;

/** The privileged engine alone has device files of the node: other containers may run as root. */
function refuseDevice(spec: Readonly<Record<string, unknown>>, { name }: Volume, path: string): void {
  if (!path.startsWith("/dev/")) return;
  if (!accelerator.test(path)) refuse(`the device ${path}`);
  for (const list of ["containers", "initContainers"] as const)
    for (const { name: container, volumeMounts } of records(spec[list])) {
      if (list === "containers" && container === "engine") continue;
      if (records(volumeMounts).some((mount) => mount["name"] === name))
        refuse(`the device ${path} in the container ${String(container)}`);
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
      "write the models of every slot: mount it read-only, or start the operator with SVC_UNRESTRICTED_CONTAINERS=1 " +
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

function refuse(what: string, remedy?: string): never {
  throw new BadWorkload(
    `${what} is not allowed in Pods of slots: ` +
      `${remedy === undefined ? "" : `${remedy}, or `}start the operator with SVC_UNRESTRICTED_CONTAINERS=1 to allow it`,
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
