import { readFileSync } from "node:fs";
import type { ContainerInspectInfo } from "dockerode";
import { listeningPorts } from "../process/proc.ts";

/**
 * Whether the program in a container listens. Docker's own proxy listens on the host's port from the start, so only the
 * container's network shows it. Where that cannot be read (the daemon's processes are in another pid namespace), a
 * running container counts: the probe through the published port decides.
 */
export class Listeners {
  /** Reading a network's sockets costs milliseconds, and a container that has listened is probed from then on. */
  readonly #seen = new Map<string, string>();

  has({ id, info }: { readonly id: string; readonly info: Pick<ContainerInspectInfo, "Config" | "State"> }): boolean {
    const { Pid: pid, StartedAt: startedAt } = info.State;
    if (this.#seen.get(id) === startedAt) return true;
    const ports = Object.keys(info.Config.ExposedPorts ?? {}).map((port) => Number.parseInt(port, 10));
    const found = isInContainer(pid, id) ? listeningPorts(`/proc/${pid}/net`) : undefined;
    const isListening = found === undefined || ports.some((port) => found.has(port));
    if (isListening) this.#seen.set(id, startedAt);
    return isListening;
  }

  forget(id: string): void {
    this.#seen.delete(id);
  }
}

/** The number may belong to another process of this namespace: the control group names the container. */
function isInContainer(pid: number, containerId: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, "latin1").includes(containerId);
  } catch {
    return false;
  }
}
