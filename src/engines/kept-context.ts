import { processName, type ProcessRef } from "../api/process-ref.ts";
import type { Derived, SlotInputs } from "./engine.ts";
import { modes } from "./llama-mode.ts";
import { isServer } from "./llama-program.ts";

/** llama-server may save the context of a place to a file in that directory, and read it again. */
export const savePathFlag = "--slot-save-path";

/** The directory in which one process saves its context. */
export function contextDirectory(contextDir: string, slot: string, process: ProcessRef): string {
  return `${contextDir}/${slot}/${processName(process)}`;
}

/** The flags by which the process can save its context; none where the slot does not keep it, or the engine cannot. */
export function saveFlags(input: SlotInputs, process: ProcessRef): readonly string[] {
  const { contextDir } = input.host;
  if (process.role !== "main" || contextDir === undefined || obstacle(input) !== undefined) return [];
  if (input.spec.model.keepContext === undefined) return [];
  return [savePathFlag, contextDirectory(contextDir, input.slot, process)];
}

/** For status: whether the slot keeps its context, where its manifest says so. */
export function derivedKeeping(input: SlotInputs): Readonly<Record<string, Derived>> {
  if (input.spec.model.keepContext === undefined) return {};
  const reason = obstacle(input);
  return { keepContext: reason === undefined ? { value: "on", reason: "the spec" } : { value: "off", reason } };
}

/** Why the engine cannot save its context. */
function obstacle(input: SlotInputs): string | undefined {
  const { spec, host, placement } = input;
  if (!isServer(input)) return "the embedded engine cannot save its context: put a llama-server on PATH";
  if (placement.runs !== "program") return "this version keeps no context of an engine in a container";
  if (modes(input).get("main") !== "chat") return "only chat has a context that outlives a request";
  if (spec.args.includes(savePathFlag)) return `the manifest's own ${savePathFlag} decides`;
  if (host.server?.flags?.has(savePathFlag) !== true) return `this llama-server has no ${savePathFlag}`;
  return undefined;
}
