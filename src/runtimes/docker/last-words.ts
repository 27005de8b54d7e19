import { lastLine } from "../exits.ts";
import { containerLogFile } from "../logs.ts";
import { nanoseconds } from "./frames.ts";
import type { Inspected, Living } from "./inspected.ts";

/** What an ended container said last, to stand beside its exit code; "" when it said nothing since it was started. */
export async function lastWords(
  stateDir: string,
  { label, info }: Pick<Inspected, "label"> & Pick<Living, "info">,
): Promise<string> {
  const startedAt = nanoseconds(info.State.StartedAt);
  return await lastLine(containerLogFile(stateDir, label.slot, label.role), 0, (line) => {
    const [, stamp = "", text = ""] = /^(\S+) std(?:out|err) ?(.*)$/s.exec(line) ?? [];
    // One log holds all containers of a slot. Podman's stamps are of whole seconds.
    return nanoseconds(stamp) / second < startedAt / second ? "" : text;
  });
}

const second = 1_000_000_000n;
