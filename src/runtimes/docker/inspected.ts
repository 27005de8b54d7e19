import { constants } from "node:os";
import type { ContainerInspectInfo } from "dockerode";
import { bearerSchema, loopbackHost, type Exit, type Observed } from "../../api/workload.ts";
import type { ContainerLabel } from "./label.ts";
import type { Listeners } from "./listening.ts";

/** A container of ours as the daemon described it last. */
export interface Inspected {
  readonly id: string;
  readonly label: ContainerLabel;
  readonly info: ContainerInspectInfo;
}

const paused = { reason: "Paused", message: "its container was paused from outside" } as const;

/** A container with only its state. */
export type Living = Pick<Inspected, "id"> & { readonly info: Pick<ContainerInspectInfo, "State"> };

/** Whether its first process exists, also when paused or about to be restarted by the daemon. */
export function isAlive({ info }: Living): boolean {
  return info.State.Running || info.State.Paused || info.State.Restarting;
}

/** `lastLine` is the engine's last output, shown beside its exit code. */
export function observed(container: Inspected, lastLine: string, listeners: Listeners): Observed {
  const { id, label, info } = container;
  const { slot, role, ordinal, hash, port } = label;
  const base = {
    slot,
    role,
    ordinal,
    hash,
    host: loopbackHost,
    port,
    isPortTaken: false,
    startedAt: new Date(info.State.StartedAt),
  } as const;
  if (!isAlive(container)) {
    return { ...base, phase: "exited", isListening: false, id: { containerId: id }, exit: exitOf(container, lastLine) };
  }
  return {
    ...base,
    phase: "running",
    isListening: !info.State.Paused && listeners.has(container),
    ...bearerOf(container),
    ...(info.State.Paused ? { drift: paused } : {}),
    id: { containerId: id },
  };
}

/** Read from the container's environment, which the daemon keeps and shows to its users. */
function bearerOf({ label, info }: Inspected): Pick<Observed, "bearer"> {
  const name = `${label.bearer ?? ""}=`;
  const found = label.bearer === undefined ? undefined : info.Config.Env.find((pair) => pair.startsWith(name));
  const bearer = bearerSchema.safeParse(found?.slice(name.length).split(",")[0]?.trim()).data;
  return bearer === undefined ? {} : { bearer };
}

/** The running container; else the container that ended last. */
export function inForce(containers: readonly Inspected[]): Inspected | undefined {
  return (
    containers.find(isAlive) ??
    containers.toSorted((a, b) => Date.parse(b.info.Created) - Date.parse(a.info.Created))[0]
  );
}

/** Shells and Docker report 128 + n for a program that signal n ended; the daemon keeps nothing more exact. */
const firstSignalCode = 128;

function exitOf({ info }: Inspected, lastLine: string): Exit {
  const { State: state } = info;
  const at = new Date(state.FinishedAt).toISOString();
  const said = lastLine === "" ? "" : `: ${lastLine}`;
  if (state.OOMKilled) {
    const limit = info.HostConfig.Memory;
    const bound = limit === undefined || limit === 0 ? "" : ` (its limit is ${limit} bytes)`;
    return {
      reason: "OOMKilled",
      code: state.ExitCode,
      message: `the kernel killed it: out of memory${bound}${said}`,
      at,
    };
  }
  const signal = signalOf(state.ExitCode);
  if (signal !== undefined) {
    return { reason: "Signalled", signal, code: state.ExitCode, message: `ended by ${signal}${said}`, at };
  }
  if (state.Status === "created") {
    return {
      reason: "Unknown",
      message: state.Error || "its container was made and never started",
      at: new Date().toISOString(),
    };
  }
  return { reason: "Exited", code: state.ExitCode, message: `exited with code ${state.ExitCode}${said}`, at };
}

function signalOf(code: number): string | undefined {
  if (code <= firstSignalCode || code > firstSignalCode + 64) return undefined;
  return Object.entries(constants.signals).find(([, number]) => number === code - firstSignalCode)?.[0];
}
