import type { Step } from "../api/plan.ts";
import type { Observed, Workload } from "../api/workload.ts";
import { isRefusal } from "../engines/engine.ts";
import { RuntimeUnavailable } from "../runtimes/runtime-unavailable.ts";
import { errorMessage } from "../lib/error-code.ts";
import { startOf } from "./facts.ts";
import type { Gathered } from "./gather.ts";
import type { SlotInput } from "./input.ts";
import { silentReason } from "./silent.ts";
import type { Verdict } from "./verdict.ts";
import type { World } from "./world.ts";

export interface Acted {
  readonly started: number;
  readonly hasChanged: boolean;
  readonly failure?: { readonly step: Step; readonly error: unknown };
}

export const nothing: Acted = { started: 0, hasChanged: false };

/**
 * Carries out the steps in order. No decision is taken here; a step that fails ends the acting. Rejects once `signal`
 * is aborted, before the next step or while something is being stopped: whoever comes next sees that through.
 */
export async function act(
  world: World,
  { input, engine, engineInput }: Gathered,
  steps: readonly Step[],
  signal: AbortSignal,
): Promise<Acted> {
  let started = 0;
  let hasChanged = false;
  const isStopping = steps.some((step) => step.do === "stop");
  for (const step of steps) {
    signal.throwIfAborted();
    try {
      switch (step.do) {
        case "stop": {
          const { stopSeconds = 30 } = input.spec ?? {};
          await unlessAborted(world.runtime.remove(input.name, step.role, { stopSeconds }), signal);
          world.ports.release(input.name, step.role);
          hasChanged = true;
          break;
        }
        case "start": {
          // What is stopped now starts in the next reconcile, from a fresh look: its memory is free by then.
          if (isStopping || isRefusal(input.workloads)) break;
          const workload = input.workloads.find(({ role }) => role === step.role);
          if (workload === undefined) break;
          await world.runtime.ensure(sendBearers(world) ? workload : withoutBearer(workload));
          started += 1;
          hasChanged = true;
          break;
        }
        case "repair": {
          const workload = isRefusal(input.workloads)
            ? undefined
            : input.workloads.find(({ role }) => role === step.role);
          if (workload === undefined) break;
          await world.runtime.ensure(workload);
          hasChanged = true;
          break;
        }
        case "warm": {
          const process = input.observed.find(({ role }) => role === step.role);
          if (process === undefined || engine === undefined || engineInput === undefined) break;
          world.health.warm(process, engine.probe(engineInput, step.role), warmUpTimeoutMs(input, process));
          break;
        }
        case "drain":
        case "wait":
          break;
        default:
          step satisfies never;
      }
    } catch (error) {
      signal.throwIfAborted();
      return { started, hasChanged: true, failure: { step, error } };
    }
  }
  return { started, hasChanged };
}

/** A gateway of an earlier version that serves now would be refused by an engine that wants a bearer. */
function sendBearers(world: World): boolean {
  return world.demand.list().every(({ sendsBearers }) => sendsBearers === true);
}

function withoutBearer({ bearer: _none, ...workload }: Workload): Workload {
  return workload;
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(new Error("the operator is being stopped"));
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** The rest of this very process's start-up time: a large model's first token may take long. */
function warmUpTimeoutMs(input: SlotInput, process: Observed): number {
  const limitMs = (input.spec?.probe.startupSeconds ?? 600) * 1000;
  return Math.min(limitMs, Math.max(1000, limitMs - (input.now.getTime() - startOf(input, process))));
}

/** The verdict when a step of it could not be carried out. */
export function actFailed(verdict: Verdict, { step, error }: NonNullable<Acted["failure"]>): Verdict {
  const message = `${step.do} failed: ${errorMessage(error)}`;
  const isSilent = error instanceof RuntimeUnavailable;
  const reason = isSilent ? silentReason : "ActFailed";
  const failure = { reason, message, isTerminal: false, isSteady: false };
  // The engine did nothing wrong when the runtime cannot be asked.
  const again = { reason, message, steps: verdict.steps, ...(isSilent ? {} : { failure }), requeueMs: 1000 };
  if (verdict.state === "ready") return { ...again, state: "ready", row: "loadedRetrying" };
  // What is to go must go, however often it takes.
  if (verdict.state === "unloading") return { ...verdict, message: `${verdict.message}; ${message}`, requeueMs: 1000 };
  return { ...again, state: "error", row: "retrying" };
}
