import { readFileSync } from "node:fs";
import { listeningPorts } from "../proc.ts";

/**
 * Whether a program in the container listens on one of the ports. Docker's own proxy listens on the host's port from
 * the start, so only the container's network tells. Where that cannot be read (the daemon's processes are in another
 * pid namespace), a running container counts: the probe through the published port decides.
 */
export function isListeningInside(pid: number, containerId: string, ports: readonly number[]): boolean {
  if (!isInContainer(pid, containerId)) return true;
  const found = listeningPorts(`/proc/${pid}/net`);
  return found === undefined || ports.some((port) => found.has(port));
}

/** The number may belong to another process of this namespace: the control group names the container. */
function isInContainer(pid: number, containerId: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, "latin1").includes(containerId);
  } catch {
    return false;
  }
}
