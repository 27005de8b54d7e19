import { isDeepStrictEqual } from "node:util";
import { admit } from "../../../src/operator/groups/admit.ts";
import type { GroupRules } from "../../../src/operator/groups/place.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import { fits, type Amounts } from "../../../src/operator/groups/amounts.ts";
import type { Grant } from "../../../src/operator/plan/grant.ts";
import { member } from "./members.ts";

/** What a slot of the simulated group is. */
export interface SimulatedSlot {
  readonly name: string;
  readonly needs: Amounts;
  readonly loadMs: number;
  readonly requestMs: number;
  readonly isPinned?: boolean;
  /** How many of its loads fail at their end, before one succeeds. */
  readonly failedLoads?: number;
}

export interface SimulatedRequest {
  readonly at: number;
  readonly slot: number;
  /** Its client leaves if it has waited for this long. */
  readonly giveUpAfterMs?: number;
}

export interface Run {
  /** What no sequence of requests may cause. */
  readonly problems: readonly string[];
  /** Of each request that was answered. */
  readonly waits: readonly number[];
  readonly loads: number;
  /** Requests that were not answered, and whose clients still wait. */
  readonly left: number;
  readonly gaveUp: number;
}

interface State extends SimulatedSlot {
  /** Of each request that waits: since when, and until when. */
  waiting: { readonly since: number; readonly until: number }[];
  /** Of each request under way: until when. */
  inFlight: number[];
  state: "offline" | "loading" | "ready" | "leaving";
  sinceMs: number;
  lastUsedAt: number;
  failuresLeft: number;
  retryAt: number;
}

export const stepMs = 500;
const backOffMs = 5000;
/** Long after the last request all have been answered, or never will be. */
const settleMs = 3_000_000;

/**
 * Runs a group in simulated time: its slots load, answer and unload as `admit()` says. `onGrant` is told each answer to
 * a slot that differs from the one before.
 */
export function simulate(
  slots: readonly SimulatedSlot[],
  rules: GroupRules,
  requests: readonly SimulatedRequest[],
  onGrant: (slot: string, grant: Grant | undefined, now: number) => void = () => undefined,
): Run {
  const states = slots.map((slot): State => ({
    ...slot,
    waiting: [],
    inFlight: [],
    state: "offline",
    sinceMs: 0,
    lastUsedAt: 0,
    failuresLeft: slot.failedLoads ?? 0,
    retryAt: 0,
  }));
  const problems: string[] = [];
  const waits: number[] = [];
  let [loads, gaveUp] = [0, 0];
  let entries: Entries = new Map();
  const told = new Map<string, Grant | undefined>();
  const due = requests.toSorted((a, b) => a.at - b.at);
  const last = due.at(-1)?.at ?? 0;
  let next = 0;
  const isBusy = ({ waiting, inFlight }: State): boolean => waiting.length + inFlight.length > 0;
  const isRequesting = (slot: State, now: number): boolean =>
    slot.state === "offline" && slot.waiting.length > 0 && slot.retryAt <= now;
  for (let now = 0; now <= last + settleMs; now += stepMs) {
    for (; (due[next]?.at ?? Infinity) <= now; next += 1) {
      const request = due[next];
      states[request?.slot ?? 0]?.waiting.push({ since: now, until: now + (request?.giveUpAfterMs ?? Infinity) });
    }
    for (const slot of states) {
      const staying = slot.waiting.filter(({ until }) => until > now);
      gaveUp += slot.waiting.length - staying.length;
      slot.waiting = staying;
      slot.inFlight = slot.inFlight.filter((end) => end > now);
      if (slot.state === "loading" && now - slot.sinceMs >= slot.loadMs) {
        slot.state = slot.failuresLeft > 0 ? "offline" : "ready";
        if (slot.failuresLeft > 0) slot.retryAt = now + backOffMs;
        slot.failuresLeft = Math.max(0, slot.failuresLeft - 1);
      }
      if (slot.state === "leaving" && slot.inFlight.length === 0) slot.state = "offline";
      if (slot.state !== "ready") continue;
      for (const { since } of slot.waiting) {
        waits.push(now - since);
        slot.inFlight.push(now + slot.requestMs);
        slot.lastUsedAt = now;
      }
      slot.waiting = [];
    }
    const members = states.map((slot) =>
      member(slot.name, {
        needs: slot.needs,
        isRequesting: isRequesting(slot, now),
        isPresent: slot.state !== "offline",
        isReady: slot.state === "ready",
        isLeaving: slot.state === "leaving",
        isBusy: isBusy(slot),
        isPinned: slot.isPinned === true,
        idleMs: now - slot.lastUsedAt,
        cost: { loadSeconds: slot.loadMs / 1000 },
      }),
    );
    const admission = admit(members, rules, entries, now);
    ({ entries } = admission);
    const isLate = [...entries].some(
      ([, { state, sinceMs }]) => state === "waiting" && now - sinceMs >= rules.maxWaitMs,
    );
    for (const slot of states) {
      const grant = admission.grants.get(slot.name);
      if (!isDeepStrictEqual(told.get(slot.name), grant)) onGrant(slot.name, grant, now);
      told.set(slot.name, grant);
      if (grant?.state === "leaving" && slot.state !== "leaving") {
        if (slot.isPinned === true) problems.push(`${slot.name} is pinned and told to leave at ${now}`);
        if (slot.state !== "ready") problems.push(`${slot.name} is ${slot.state} and told to leave at ${now}`);
        if (isBusy(slot) && !isLate) problems.push(`${slot.name} is busy and told to leave at ${now}`);
        Object.assign(slot, { state: "leaving", sinceMs: now });
      }
      if (grant?.state === "granted" && isRequesting(slot, now)) {
        Object.assign(slot, { state: "loading", sinceMs: now });
        loads += 1;
      }
    }
    const present = states.filter(({ state }) => state !== "offline");
    if (!fits(present, rules.capacity))
      problems.push(`${present.map(({ name }) => name).join(", ")} are over at ${now}`);
    if (states.some((slot) => isBusy(slot) || slot.state === "loading" || slot.state === "leaving")) continue;
    if (next >= due.length) break;
    // Nothing happens until the next request.
    now = Math.max(now, Math.floor((due[next]?.at ?? now) / stepMs) * stepMs - stepMs);
  }
  const left = states.reduce((sum, { waiting }) => sum + waiting.length, 0);
  return { problems, waits, loads, left, gaveUp };
}
