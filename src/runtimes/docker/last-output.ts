import { lastLine } from "../process/exits.ts";
import { containerLogFile } from "../logs/logs.ts";
import { nanoseconds } from "./frames.ts";
import type { Inspected, Living } from "./inspected.ts";

/** The exit code of a container that KILL has ended, as the kernel's or a person's. */
const killedCode = 137;

/** The last output of an ended container, shown beside its exit code; "" without output since its start. */
export async function lastOutput(
  stateDir: string,
  { label, info }: Pick<Inspected, "label"> & Pick<Living, "info">,
): Promise<string> {
  const startedAt = nanoseconds(info.State.StartedAt);
  const textOf = (line: string): string => {
    const [, stamp = "", text = ""] = /^(\S+) std(?:out|err) ?(.*)$/s.exec(line) ?? [];
    // One log holds all containers of a slot. Podman's stamps are of whole seconds.
    return nanoseconds(stamp) / second < startedAt / second ? "" : text;
  };
  return await lastLine(containerLogFile(stateDir, label), 0, textOf, info.State.ExitCode === killedCode);
}

const second = 1_000_000_000n;
