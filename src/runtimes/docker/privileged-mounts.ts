import { realpath, stat } from "node:fs/promises";
import type { Container } from "../../api/workload.ts";
import { BadWorkload } from "../start-failure.ts";

/** The kernel's own trees: to write there, and often to read, is to rule the machine. */
const kernelTrees = ["/proc", "/sys", "/dev", "/boot"];

/** Whoever may speak to one of these rules the machine, whichever of them Berth itself uses. */
const sockets = ["/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"];

/**
 * Throws BadWorkload for a mount that would hand over the machine: `/` and whatever holds or lies in one of the kernel's
 * trees, `/etc`, a container engine's socket or a `guarded` directory, and any other socket. Links are followed first.
 */
export async function refusePrivilegedMounts(
  mounts: Container["mounts"],
  options: { readonly socket: string; readonly guarded: readonly string[] },
): Promise<void> {
  const socket = await realpath(options.socket).catch(() => options.socket);
  const held = [...kernelTrees, "/etc", ...sockets, socket, ...options.guarded];
  for (const { source } of mounts) {
    const real = await realpath(source).catch(() => undefined);
    if (real === undefined) throw new BadWorkload(`mounts: ${source} does not exist on this machine`);
    const isHolder = held.some((path) => isWithin(path, real));
    const isInside = kernelTrees.some((tree) => isWithin(real, tree));
    if (isHolder || isInside || (await stat(real)).isSocket()) {
      throw new BadWorkload(
        `mounts: ${source}${real === source ? "" : ` (${real})`} would give the container this machine; ` +
          "start the operator with SVC_ALLOW_HOST_MOUNTS=1 to allow it",
      );
    }
  }
}

function isWithin(path: string, directory: string): boolean {
  return directory === "/" || path === directory || path.startsWith(`${directory}/`);
}
