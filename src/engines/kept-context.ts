import { processName, type ProcessRef } from "../api/process-ref.ts";
import type { Workload } from "../api/workload.ts";
import type { Derived, SlotInputs } from "./engine.ts";
import { modes } from "./llama-mode.ts";
import { isServer, serverRemedy } from "./llama-program.ts";

/** llama-server may save the context of a place to a file in that directory, and read it again. */
export const savePathFlag = "--slot-save-path";

/**
 * The directory's path in a container. Not the path on this machine, as of models: in an image a directory on that way
 * (`/root`) may be closed to the image's user.
 */
const pathInside = "/berth/context";

const longestRefusal = 300;

/** Where the process can save its context; undefined where the slot does not keep it, or the engine cannot. */
export function contextPlaceOf(input: SlotInputs, process: ProcessRef): Workload["contextPlace"] {
  const { contextDir } = input.host;
  if (process.role !== "main" || contextDir === undefined || obstacle(input) !== undefined) return undefined;
  if (input.spec.model.keepContext === undefined) return undefined;
  const source = `${contextDir}/${input.slot}/${processName(process)}`;
  return { source, target: input.placement.runs === "program" ? source : pathInside };
}

/** The workload without a place to save to. */
export function withoutContextPlace({ contextPlace, ...workload }: Workload): Workload {
  if (contextPlace === undefined) return workload;
  const { command } = workload;
  const at = command.findIndex((word, index) => word === savePathFlag && command[index + 1] === contextPlace.target);
  return { ...workload, command: at < 0 ? command : command.toSpliced(at, 2) };
}

/**
 * The line by which an engine refuses its place to save to. llama-server ends with `error while handling argument
 * "--slot-save-path": not a directory: …`, and a version without the flag with `error: invalid argument: …`.
 */
export function refusalIn(output: string): string | undefined {
  const line = output.split("\n").find((each) => /^error\b.*\bargument\b/.test(each) && each.includes(savePathFlag));
  return line?.slice(0, longestRefusal);
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
  const isProgram = placement.runs === "program";
  if (!isServer(input)) {
    const instead = isProgram ? serverRemedy(input) : "name an image of llama.cpp's own server";
    return `the embedded engine cannot save its context: ${instead}`;
  }
  if (placement.inCluster === true)
    return "a Pod has no place for it that outlives the Pod: the volume of models is read-only there";
  if (modes(input).get("main") !== "chat") return "only chat has a context that outlives a request";
  if (spec.args.includes(savePathFlag)) return `the manifest's own ${savePathFlag} decides`;
  // An image's version is unknown before it runs; every version that knows the other flags has this flag too.
  if (isProgram && host.server?.flags?.has(savePathFlag) !== true) return `this llama-server has no ${savePathFlag}`;
  const taken = isProgram ? undefined : spec.mounts.find(({ target }) => isNested(target, pathInside));
  return taken === undefined ? undefined : `the manifest's own mount at ${taken.target} is in its place`;
}

/** Whether the paths are the same, or one lies in the other. */
function isNested(one: string, other: string): boolean {
  const [shorter = "", longer = ""] = [one, other]
    .map((path) => `${path.replace(/\/+$/, "")}/`)
    .toSorted((a, b) => a.length - b.length);
  return longer.startsWith(shorter);
}
