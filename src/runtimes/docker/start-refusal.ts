import { loopbackHost, type Exit, type Observed, type Workload } from "../../api/workload.ts";
import { NoContextPlace } from "../start-failure.ts";
import { DaemonRefusal } from "./daemon.ts";

/**
 * Why the daemon will never start the container without a change, or that its port is taken; undefined when another
 * attempt may succeed. The daemon has messages only, no codes: these are Docker's and Podman's.
 */
export function startRefusal(error: unknown, port: number): Pick<Exit, "reason" | "message"> | undefined {
  if (!(error instanceof DaemonRefusal)) return undefined;
  const said = error.message;
  if (/port is already allocated|address already in use/i.test(said)) {
    return { reason: "PortInUse", message: `another program listens on port ${port}` };
  }
  const exec = /(exec:? .*?|executable file .*? not found in \$PATH|crun: .*?)(: unknown)?$/i.exec(said.trim());
  if (/OCI runtime|shim|crun|runc|starting container process/i.test(said) && exec?.[1] !== undefined) {
    return { reason: "StartFailed", message: `its program cannot be started: ${exec[1]}` };
  }
  if (/could not select device driver|unresolvable CDI devices|CDI device injection failed/i.test(said)) {
    return {
      reason: "StartFailed",
      message: `the container engine cannot provide GPUs (${said}): install the NVIDIA container toolkit`,
    };
  }
  if (/error (gathering device information|mounting)|bind source path does not exist/i.test(said)) {
    return { reason: "StartFailed", message: `its container cannot be made: ${said}` };
  }
  if (/no command (or entrypoint provided|specified)/i.test(said)) {
    return { reason: "StartFailed", message: `its image names no program (${said}): give a command in the manifest` };
  }
  if (error.status === 400) return { reason: "StartFailed", message: `its container is not valid: ${said}` };
  return undefined;
}

/** Throws NoContextPlace where the daemon refused the mount of the workload's place for contexts: it names the path. */
export function refuseContextPlace(error: unknown, { contextPlace }: Workload): void {
  if (contextPlace === undefined || !(error instanceof DaemonRefusal)) return;
  const isAbout = [contextPlace.source, contextPlace.target.slice(1)].some((path) => error.message.includes(path));
  if (isAbout) throw new NoContextPlace(`its container cannot have it: ${error.message}`, { cause: error });
}

/** A start that the daemon refused: there is no container to show, but there is a reason. */
export type RefusedStart = Observed & { readonly phase: "exited" };

export function refusedStart(
  { slot, role, ordinal, hash, port }: Workload,
  refusal: Pick<Exit, "reason" | "message">,
): RefusedStart {
  const now = new Date();
  return {
    slot,
    role,
    ordinal,
    hash,
    host: loopbackHost,
    port,
    phase: "exited",
    isListening: false,
    isPortTaken: refusal.reason === "PortInUse",
    startedAt: now,
    id: { containerId: "" },
    exit: { ...refusal, at: now.toISOString() },
  };
}
