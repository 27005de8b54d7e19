import type { Condition, ConditionType } from "./conditions.ts";
import { processKey } from "./process-ref.ts";
import { canMove, isAvailable, type SlotState } from "./states.ts";
import { slotStatusSchema, type SlotStatus } from "./status.ts";

/** The expectation of one line of the table in docs/slots.md for one summary condition: `status/reason`, or absence. */
type Expected = string | undefined;
interface Row {
  readonly name: string;
  readonly holds: (state: SlotState) => boolean;
  /** `*` stands for any reason, `cause` for one reason that is the same throughout the row. */
  readonly ready: string;
  readonly available: string;
  readonly reconciling: Expected;
  readonly stalled: Expected;
}

const offlineReasons = ["Disabled", "NotConfigured", "ScaledToZero", "Unloaded", "UnloadedUntilRequest", "Lent"];
const waitingReasons = ["GroupFull", "GroupPending", "MemoryHeld", "Lent"];
const progressing = ["pulling", "starting", "warming"] as const;

const rows: readonly Row[] = [
  ...offlineReasons.map((reason) => ({
    name: `offline, ${reason}`,
    holds: (state: SlotState) => state === "offline",
    ready: `True/${reason}`,
    available: `False/${reason}`,
    reconciling: undefined,
    stalled: undefined,
  })),
  row("offline, paused", is("offline"), "Unknown/Paused", "False/Paused", "True/Paused", undefined),
  ...waitingReasons.map((reason) =>
    row(`offline, ${reason}`, is("offline"), `Unknown/${reason}`, `False/${reason}`, `True/${reason}`, undefined),
  ),
  row("offline, stopped", is("offline"), "Unknown/Stopped", "False/Stopped", undefined, undefined),
  ...progressing.map((name) => ({
    name,
    holds: (state: SlotState) => state === name,
    ready: "Unknown/Progressing",
    available: `False/${capitalised(name)}`,
    reconciling: "True/*",
    stalled: undefined,
  })),
  row("loaded", isAvailable, "True/Loaded", "True/Loaded", undefined, undefined),
  row("unloading", is("unloading"), "Unknown/Progressing", "False/Unloading", "True/Unloading", undefined),
  row("retrying", is("error"), "False/cause", "False/cause", "True/ProgressingWithRetry", undefined),
  row("stalled", is("error"), "False/cause", "False/cause", undefined, "True/cause"),
  row("loaded, next on its way", isAvailable, "Unknown/Progressing", "True/Loaded", "True/*", undefined),
  row("loaded, next retried", isAvailable, "False/cause", "True/Loaded", "True/ProgressingWithRetry", undefined),
  row("loaded, next cannot be had", isAvailable, "False/cause", "True/Loaded", undefined, "True/cause"),
  // A broken manifest overlays every other row: the last valid spec stays in force in any state.
  row("invalid edit", isAvailable, "False/InvalidSpec", "True/Loaded", undefined, "True/InvalidSpec"),
  row("invalid edit", isUnavailable, "False/InvalidSpec", "False/*", undefined, "True/InvalidSpec"),
];

/**
 * Every way in which `after`, published after `before` for a resource of that generation, breaks the rules of
 * docs/slots.md. Empty when it keeps them. Tests call it after every reconcile.
 */
export function lintStatus(before: SlotStatus | undefined, after: SlotStatus, generation: number): string[] {
  const shape = slotStatusSchema.safeParse(after);
  if (!shape.success) return shape.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  return [
    ...lintConditions(before, after),
    ...lintGenerations(before, after, generation),
    ...lintMove(before, after),
    ...lintFacts(before, after),
  ];
}

/** Ports are leased: no two processes of these statuses may share one. */
export function lintPorts(statuses: Iterable<readonly [slot: string, status: SlotStatus]>): string[] {
  const holders = new Map<string, string>();
  const problems: string[] = [];
  for (const [slot, { processes }] of statuses) {
    for (const process of processes) {
      const place = `${process.host}:${process.port}`;
      const owner = processKey({ ...process, slot });
      const holder = holders.get(place);
      if (holder === undefined) holders.set(place, owner);
      else problems.push(`port ${place} is held by ${holder} and ${owner}`);
    }
  }
  return problems;
}

function lintConditions(before: SlotStatus | undefined, after: SlotStatus): string[] {
  const problems: string[] = [];
  const { conditions, state } = after;
  const types = conditions.map(({ type }) => type);
  for (const type of new Set(types.filter((one, index) => types.indexOf(one) !== index))) {
    problems.push(`condition ${type} is listed twice`);
  }
  const claims = (["Ready", "Available", "Reconciling", "Stalled"] as const).map((type) => stated(conditions, type));
  const [ready, available, reconciling, stalled] = claims;
  if (isTrue(ready) && isTrue(stalled)) problems.push("Ready and Stalled are both True");
  if (isTrue(ready) && isTrue(reconciling)) problems.push("Ready and Reconciling are both True");
  if (isTrue(reconciling) && isTrue(stalled)) problems.push("Reconciling and Stalled are both True");
  if (isTrue(available) && !isAvailable(state)) problems.push(`Available is True in state ${state}`);
  if (!rows.some((candidate) => candidate.holds(state) && fits(candidate, claims))) {
    const said = claims.map((claim) => claim ?? "–").join(", ");
    problems.push(`no row of the table allows ${state} with Ready, Available, Reconciling, Stalled = ${said}`);
  }
  for (const condition of conditions) {
    const previous = before?.conditions.find(({ type }) => type === condition.type);
    if (previous === undefined) continue;
    const hasMoved = previous.lastTransitionTime !== condition.lastTransitionTime;
    const hasChanged = previous.status !== condition.status;
    if (hasMoved && !hasChanged) problems.push(`${condition.type}: lastTransitionTime moved without its status`);
    if (hasChanged && Date.parse(condition.lastTransitionTime) < Date.parse(previous.lastTransitionTime)) {
      problems.push(`${condition.type}: lastTransitionTime went back`);
    }
  }
  return problems;
}

function lintGenerations(before: SlotStatus | undefined, after: SlotStatus, generation: number): string[] {
  const problems: string[] = [];
  const seen = after.observedGeneration;
  if (seen > generation) problems.push(`observedGeneration ${seen} is beyond generation ${generation}`);
  if (before !== undefined && seen < before.observedGeneration) problems.push("observedGeneration went back");
  for (const { type, observedGeneration } of after.conditions) {
    if (observedGeneration > seen) problems.push(`${type}: observedGeneration is beyond that of the status`);
  }
  return problems;
}

function lintMove(before: SlotStatus | undefined, after: SlotStatus): string[] {
  const problems: string[] = [];
  const from = before?.state ?? "offline";
  if (!canMove(from, after.state)) problems.push(`${from} → ${after.state} is not a move`);
  const last = after.transitions.at(-1);
  if (before !== undefined && from !== after.state && last?.to !== after.state) {
    problems.push(`the move ${from} → ${after.state} is not among the transitions`);
  }
  for (const [index, transition] of after.transitions.entries()) {
    const next = after.transitions[index + 1];
    if (!canMove(transition.from, transition.to)) {
      problems.push(`transitions: ${transition.from} → ${transition.to} is not a move`);
    }
    if (next !== undefined && next.from !== transition.to) {
      problems.push(`transitions: ${transition.to} is followed by a move from ${next.from}`);
    }
  }
  return problems;
}

function lintFacts(before: SlotStatus | undefined, after: SlotStatus): string[] {
  const problems: string[] = [];
  const { state, processes } = after;
  const reconciling = stated(after.conditions, "Reconciling");
  const stalled = stated(after.conditions, "Stalled");
  const isRetrying = reconciling === "True/ProgressingWithRetry" || stalled === "True/InvalidSpec";
  if (state === "error" && after.lastError === undefined) problems.push("error without lastError");
  if (after.nextRetryAt !== undefined && !isRetrying) problems.push("nextRetryAt where nothing is retried");
  if (after.progress !== undefined && state !== "pulling" && reconciling !== "True/Pulling") {
    problems.push("progress where nothing is pulled");
  }
  if (after.readySince !== undefined && !isAvailable(state)) problems.push(`readySince in state ${state}`);
  if (isAvailable(state)) {
    if (!processes.some(({ isReady }) => isReady)) problems.push(`${state} without a process that is ready`);
    if (after.endpoint === undefined && processes.some(({ role }) => role === "main")) {
      problems.push(`${state} without an endpoint`);
    }
  } else if (processes.some(({ isReady, role }) => isReady && role === "main") && state !== "warming") {
    problems.push(`a process that is ready in state ${state}`);
  }
  if (state === "offline" && processes.length > 0) problems.push("offline with a process");
  const ports = processes.map(({ host, port }) => `${host}:${port}`);
  if (new Set(ports).size !== ports.length) problems.push("two processes on one port");
  const mains = processes.filter(({ role }) => role === "main");
  const main = mains.find(({ isReady }) => isReady) ?? mains[0];
  if (main !== undefined && after.port !== main.port) problems.push("port is not that of the main process");
  if (before !== undefined && after.restarts < before.restarts) problems.push("restarts went back");
  return problems;
}

function row(
  name: string,
  holds: Row["holds"],
  ready: string,
  available: string,
  reconciling: Expected,
  stalled: Expected,
): Row {
  return { name, holds, ready, available, reconciling, stalled };
}

function is(wanted: SlotState): (state: SlotState) => boolean {
  return (state) => state === wanted;
}

function isUnavailable(state: SlotState): boolean {
  return !isAvailable(state);
}

function capitalised(word: string): string {
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}`;
}

/** `status/reason` of a condition. Reconciling and Stalled at False mean the same as their absence. */
function stated(conditions: readonly Condition[], type: ConditionType): Expected {
  const condition = conditions.find((one) => one.type === type);
  if (condition === undefined) return undefined;
  const isAbnormalTrue = type === "Reconciling" || type === "Stalled";
  if (isAbnormalTrue && condition.status === "False") return undefined;
  return `${condition.status}/${condition.reason}`;
}

function isTrue(claim: Expected): boolean {
  return claim?.startsWith("True/") === true;
}

function fits(candidate: Row, claims: readonly Expected[]): boolean {
  const expected = [candidate.ready, candidate.available, candidate.reconciling, candidate.stalled];
  const causes = new Set<string>();
  const isMatch = expected.every((want, index) => {
    const claim = claims[index];
    if (want === undefined || claim === undefined) return want === claim;
    if (want.endsWith("/*")) return claim.startsWith(want.slice(0, -1));
    if (!want.endsWith("/cause")) return claim === want;
    causes.add(claim.slice(claim.indexOf("/") + 1));
    return claim.startsWith(want.slice(0, -"cause".length));
  });
  return isMatch && causes.size <= 1;
}
