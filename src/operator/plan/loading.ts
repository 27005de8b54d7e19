import { stepProcess, type Step } from "../../api/plan.ts";
import type { Observed, Workload } from "../../api/workload.ts";
import { failuresInForce, needsStart, running, start, startOf, steadyMs, workloadsOf } from "./facts.ts";
import { at, healthOf, type SlotInput } from "./input.ts";
import type { ProcessInput } from "./processes.ts";
import { isSameProcess, processName } from "../../api/process-ref.ts";
import type { Verdict } from "./verdict.ts";
import { idleInMs } from "./wanted.ts";

/** A wanted process does not run. */
export function notRunning(input: ProcessInput): Verdict | undefined {
  const starts = needsStart(input);
  if (starts.length === 0) return undefined;
  const failures = failuresInForce(input);
  const reason =
    failures > 0 ? `try again after failure ${failures}` : input.want.load ? input.want.reason : "it is wanted";
  return {
    severity: "progressing",
    phase: input.pullsAfterStart === true ? "pulling" : "starting",
    reason: "Starting",
    message: reason,
    steps: [...pins(input), ...leases(input, starts), ...starts.map((workload) => start(workload, reason))],
    requeueMs: 20,
  };
}

function pins({ digests }: SlotInput): Step[] {
  const reason = "the image was named without a digest";
  return Object.entries(digests).map(([image, digest]) => ({ do: "pin", image, digest, reason }));
}

function leases({ unleased }: SlotInput, starts: readonly Workload[]): Step[] {
  const ports = unleased.filter((process) => starts.some((workload) => isSameProcess(workload, process)));
  if (ports.length === 0) return [];
  const reason = `${ports.map(({ port }) => port).join(" and ")} ${ports.length === 1 ? "is" : "are"} free`;
  return [{ do: "lease", ports: ports.map((each) => ({ ...stepProcess(each), port: each.port })), reason }];
}

/** A foreign change is corrected without a restart. */
export function drifted(input: ProcessInput): Verdict | undefined {
  const process = running(input).find(({ drift }) => drift !== undefined);
  const workload = workloadsOf(input).find((each) => process !== undefined && isSameProcess(each, process));
  if (process?.drift === undefined || workload === undefined) return undefined;
  return {
    severity: "progressing",
    phase: "warming",
    ...process.drift,
    steps: [{ do: "repair", ...stepProcess(workload), reason: process.drift.message }],
    requeueMs: 0,
  };
}

/** Short intervals at first, then longer ones: a tenth of its loading time so far, within 20 to 200 ms. */
function loadingRequeueMs(input: SlotInput, process: Observed): number {
  return Math.min(200, Math.max(20, (input.now.getTime() - startOf(input, process)) / 10));
}

/** A process was asked for, and its program has not begun: no time to become healthy runs yet. */
export function pending(input: ProcessInput): Verdict | undefined {
  const process = running(input).find((each) => each.pending !== undefined);
  if (process?.pending === undefined) return undefined;
  const { reason, message, isStuck } = process.pending;
  return {
    // The runtime still fetches or prepares the process: `starting` begins with its program.
    ...(isStuck ? { severity: "retrying" } : { severity: "progressing", phase: "pulling" }),
    reason,
    message,
    steps: [{ do: "wait", reason: message }],
    requeueMs: 5000,
  };
}

/** A process has been started and is not ready yet. */
export function coming(input: ProcessInput): Verdict | undefined {
  const process = running(input).find((each) => healthOf(input, each)?.isWarm !== true);
  if (process === undefined) return undefined;
  const health = healthOf(input, process);
  const verdict = (phase: "starting" | "warming", message: string, step: Step): Verdict => ({
    severity: "progressing",
    phase,
    reason: phase === "starting" ? "Starting" : "Warming",
    message,
    steps: [step],
    requeueMs: loadingRequeueMs(input, process),
  });
  if (!process.isListening) {
    const message = `the ${processName(process)} process does not listen on port ${process.port} yet`;
    return verdict("starting", message, { do: "wait", reason: message });
  }
  if (health?.isHealthy !== true) {
    const message = "the engine loads its model";
    return verdict("warming", message, { do: "wait", reason: message });
  }
  const why = health.message === "" ? "the probe passed" : `the last try failed: ${health.message}`;
  const proof = "a first request proves that the model answers";
  const message = health.message === "" ? proof : `${proof}; ${why}`;
  const restMs = (health.warmUpAt?.getTime() ?? 0) - input.now.getTime();
  if (health.warmUpAt === undefined || restMs <= 0) {
    return verdict("warming", message, { do: "warm", ...stepProcess(process), reason: why });
  }
  const step = { do: "wait", reason: `${why}; next try`, until: health.warmUpAt.toISOString() } as const;
  return { ...verdict("warming", message, step), requeueMs: restMs };
}

/** Every wanted process runs and answers: the last rule, which always applies. */
export function loaded(input: ProcessInput): Verdict {
  const soonest = [idleInMs(input.slot), historyInMs(input.slot)].filter((ms) => ms !== undefined);
  const requeueMs = Math.max(1, Math.min(...soonest));
  if (input.lacking !== undefined && input.process.role === "main") {
    const message = `${input.lacking} of ${input.spec?.replicas ?? 1} replicas find no port: every engine port is taken`;
    const steps: Step[] = [{ do: "wait", reason: message }];
    return { severity: "retrying", reason: "NoFreePort", message, steps, requeueMs: 5000 };
  }
  const held = input.held.ref === undefined ? "its command" : input.held.ref;
  return {
    severity: "loaded",
    reason: "Loaded",
    message: `${held} is loaded`,
    steps: [],
    ...(soonest.length === 0 ? {} : { requeueMs }),
  };
}

/**
 * Milliseconds until a slot that is ready has been so for long, and its failures no longer count; undefined where that is
 * not due: without failures, and where only those of a process that does not run are left.
 */
function historyInMs({ before, observed, now }: SlotInput): number | undefined {
  const { failures = 0, lastError, processFailures, readySince } = before?.status ?? {};
  if (failures === 0 && lastError === undefined && processFailures === undefined) return undefined;
  const started = observed.map(({ startedAt }) => startedAt.getTime());
  const since = Math.max(readySince === undefined ? now.getTime() : at(readySince), ...started);
  const leftMs = since + steadyMs - now.getTime();
  return leftMs > 0 ? Math.min(steadyMs, leftMs) : undefined;
}
