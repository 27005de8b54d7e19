import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Container } from "../../api/workload.ts";
import { BadWorkload } from "../start-failure.ts";
import { isWithin } from "../../lib/within.ts";

/** The kernel's own trees: write access, and often read access, gives control of the machine. */
const kernelTrees = ["/proc", "/sys", "/dev", "/boot"];

/** Access to one of these gives control of the machine, whichever of them Berth itself uses. */
const sockets = ["/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];

/** The default directories of container engines for the files of containers and images. */
const engineRoots = ["/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"];

/** Files that the machine itself executes. Reading below them is common (certificates, fonts, the time zone). */
const systemTrees = ["/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/var/spool/cron"];

export interface MountGuard {
  /** The socket through which Berth uses the container engine. */
  readonly socket: string;
  /** Directories that are refused with all their contents, also read-only. */
  readonly guarded: readonly string[];
  /** Directories within a guarded one that may be mounted. */
  readonly open: readonly string[];
}

/**
 * Throws BadWorkload for a mount that would give control of the machine: a directory around one of the kernel's trees,
 * `/etc`, a container engine's files or socket or a `guarded` directory; a path within one of them (except reading
 * below `/etc` and directories of programs); and any other socket. Links are followed first; the daemon resolves `..`
 * literally, before it follows links, and so a path with `..` would name two places.
 */
export async function refusePrivilegedMounts(mounts: Container["mounts"], guard: MountGuard): Promise<void> {
  const trees = await realPaths([...kernelTrees, ...engineRoots, ...guard.guarded]);
  const open = await realPaths(guard.open);
  const system = await realPaths(systemTrees);
  const held = [...trees, "/etc", ...(await realPaths([...sockets, guard.socket]))];
  for (const { source, readOnly } of mounts) {
    if (source.split("/").includes("..")) throw new BadWorkload(`mounts: write ${source} without ".."`);
    const real = await realpath(source).catch(() => undefined);
    if (real === undefined) throw new BadWorkload(`mounts: ${source} does not exist on this machine`);
    const isOpenIn = (tree: string): boolean => open.some((path) => isWithin(real, path) && isWithin(path, tree));
    const within = trees.find((tree) => isWithin(real, tree) && !isOpenIn(tree));
    const written = readOnly ? undefined : system.find((tree) => isWithin(real, tree) || isWithin(tree, real));
    const what = within ?? held.find((path) => isWithin(path, real)) ?? written;
    const isSocket = (await stat(real)).isSocket();
    if (what === undefined && !isSocket) continue;
    const place = `${source}${real === source ? "" : ` (${real})`}`;
    const how =
      what === undefined
        ? " is a socket, which"
        : isSocket || what === real
          ? ""
          : isWithin(real, what)
            ? `, in ${what},`
            : `, which holds ${what},`;
    const instead = written !== undefined && what === written ? "mount it read-only, or " : "";
    throw new BadWorkload(
      `mounts: ${place}${how} would give the container this machine; ` +
        `${instead}start the operator with SVC_UNRESTRICTED_CONTAINERS=1 to allow it`,
    );
  }
}

/**
 * Throws BadWorkload for a disk among the devices, also one below a directory, of which the daemon passes every device:
 * the files of the machine are on it. Each device exists.
 */
export async function refuseDisks(devices: Container["devices"]): Promise<void> {
  for (const device of devices) {
    const found = await stat(device);
    const entries = found.isDirectory() ? await readdir(device, { recursive: true, withFileTypes: true }) : [];
    const inside = entries.find((entry) => entry.isBlockDevice());
    if (!found.isBlockDevice() && inside === undefined) continue;
    const disk = inside === undefined ? device : join(inside.parentPath, inside.name);
    throw new BadWorkload(
      `devices: the disk ${disk} would give the container this machine; ` +
        "start the operator with SVC_UNRESTRICTED_CONTAINERS=1 to allow it",
    );
  }
}

/** Each path as given and with its links resolved. */
async function realPaths(paths: readonly string[]): Promise<readonly string[]> {
  const real = await Promise.all(paths.map(async (path) => await realpath(path).catch(() => path)));
  return [...new Set([...paths, ...real])];
}
