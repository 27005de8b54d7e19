import { isDeepStrictEqual } from "node:util";
import type { GroupStatus } from "../api/group-status.ts";
import { Serial } from "../lib/serial.ts";
import type { Dependencies } from "./dependencies.ts";
import { reconcileGroup } from "./groups/reconcile.ts";
import { describeOrigin } from "../store/origin.ts";
import type { Done } from "./queue.ts";
import type { DeduplicatedLog } from "./report/deduplicated-log.ts";
import type { GroupMetrics } from "./report/group-metrics.ts";

interface GroupSyncOptions {
  readonly dependencies: Dependencies;
  readonly problemLog: DeduplicatedLog;
  readonly metrics: () => GroupMetrics;
  /** A slot may be affected by the decision. */
  readonly enqueue: (slot: string) => void;
  readonly enqueueGroup: (group: string) => void;
  /** A group has other problems than before: its conditions change. */
  readonly onNewProblems: () => void;
  /** Ended loans are not removed. */
  readonly isPaused: boolean;
}

/** Decides about groups, and tells of them: published status, metrics, log. */
export class GroupSync {
  readonly #options: GroupSyncOptions;
  /** Lets one write follow the other: of two at once the older could be the last. */
  readonly #writes = new Serial();
  #published: readonly GroupStatus[] | undefined;

  constructor(options: GroupSyncOptions) {
    this.#options = options;
  }

  /** Every declared group, and those that an earlier operator knew. */
  enqueueAll(): void {
    const { dependencies, enqueueGroup } = this.#options;
    const { source, groups } = dependencies;
    const names = [...source.list("SlotGroup"), ...groups.statuses()].map(({ name }) => name);
    for (const name of new Set(names)) enqueueGroup(name);
  }

  /** Follows loans. */
  watch(): Disposable {
    const { dependencies, enqueueGroup } = this.#options;
    return dependencies.groupStore.watch((names) => names.forEach(enqueueGroup));
  }

  /** One group. Rejects where the status of groups cannot be written, after the decision. */
  async reconcile(group: string): Promise<Done> {
    const { dependencies, problemLog, metrics, enqueue, onNewProblems } = this.#options;
    const { groups, groupStore, clock } = dependencies;
    const before = groups.statusOf(group);
    const { transitions, hasNewProblems, ...done } = reconcileGroup(dependencies, group, enqueue);
    const after = groups.statusOf(group);
    const show = metrics();
    for (const move of transitions) {
      if (move.to === "granted") show.granted(group, move.slot, move.waitedMs / 1000);
      else show.evicted(group, move.slot, move.cause);
    }
    show.published(after, before);
    problemLog.report(`Group/${group}`, linesOf(after, dependencies));
    if (hasNewProblems) onNewProblems();
    const loan = this.#options.isPaused ? undefined : groupStore.loan(group);
    // A gateway may have lent it anew since that loan was read.
    if (loan !== undefined && Date.parse(loan.until) <= clock.now().getTime())
      await groupStore.endLoan(group, loan.until);
    await this.#writes.run(() => this.#publish());
    return done;
  }

  async #publish(): Promise<void> {
    const { groups, groupStore } = this.#options.dependencies;
    const now = groups.statuses();
    if (isDeepStrictEqual(now, this.#published)) return;
    await groupStore.publish(now);
    this.#published = now;
  }
}

function linesOf(status: GroupStatus | undefined, { source }: Pick<Dependencies, "source">): readonly string[] {
  if (status === undefined) return [];
  const { name, isDeclared, members, problems } = status;
  const lines = problems.map(({ reason, message }) => `group ${name}: ${reason}: ${message}`);
  if (isDeclared || members.length === 0) return lines;
  // In an order that does not change: each other line would be logged anew.
  const slots = members.map(({ slot }) => slot).toSorted();
  const named = slots.map((slot) => {
    const origin = source.get("Slot", slot)?.origin;
    return origin === undefined ? slot : `${slot} (${describeOrigin(origin)})`;
  });
  const advice = `give it a budget in groups/${name}.toml, a SlotGroup (docs/groups.md), or take the group out of these slots`;
  const undeclared = `no file declares group ${name}: its slots share the memory of their devices: ${named.join(", ")}; ${advice}`;
  return [undeclared, ...lines];
}
