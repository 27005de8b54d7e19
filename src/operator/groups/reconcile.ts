import { slotGroupSpecSchema } from "../../api/slot-group.ts";
import { isAvailable } from "../../api/states.ts";
import type { Dependencies } from "../dependencies.ts";
import { ownEntry } from "../../lib/record.ts";
import { preemption } from "../plan/group.ts";
import { at } from "../plan/input.ts";
import type { Done } from "../queue.ts";
import type { SlotStatus } from "../../api/status.ts";
import { needKey, type WantedFit } from "../plan/growth.ts";
import type { Amounts } from "./amounts.ts";
import type { GroupTransition } from "./ledger.ts";
import type { Member } from "./member.ts";
import { capacityOf, needsOf } from "./needs.ts";
import { returnCost } from "./return-cost.ts";
import { groupStatus } from "./status.ts";

type GroupDependencies = Pick<
  Dependencies,
  "source" | "published" | "demand" | "requests" | "groups" | "groupStore" | "clock" | "machine" | "models"
>;

/** A slot that cannot be read for this long counts by its published state: the others must not wait for it. */
const unreadLimitMs = 10_000;

/** The result for one group. */
export interface GroupOutcome extends Done {
  readonly transitions: readonly GroupTransition[];
  /** The group has other conditions than before. */
  readonly hasNewProblems: boolean;
}

/**
 * Decides again which slots of the group may be loaded. Reads the declared, published and demanded state, and the slots'
 * own last plans; writes the ledger. Calls `enqueue` for every slot whose answer changed.
 */
export function reconcileGroup(
  dependencies: GroupDependencies,
  group: string,
  enqueue: (slot: string) => void,
): GroupOutcome {
  const { source, groups, clock } = dependencies;
  const names = membersOf(dependencies, group);
  const spec = source.get("SlotGroup", group)?.spec;
  const nowMs = clock.elapsedMs();
  const before = groups.statusOf(group);
  if (names.length === 0 && spec === undefined) {
    for (const slot of groups.drop(group)) enqueue(slot);
    return { transitions: [], hasNewProblems: before !== undefined };
  }
  // The running slots must be known before another is started beside them.
  const unread = names.filter((name) => groups.occupancyOf(name) === undefined);
  const missing = unread.filter((name) => groups.unplannedMs(name, nowMs) < unreadLimitMs);
  if (missing.length > 0) {
    const message = `group ${group} waits until slot ${missing.join(", ")} has been read once`;
    if (groups.wait(group, message))
      for (const name of names) if (groups.occupancyOf(name) === "requesting") enqueue(name);
    const requeueMs = unreadLimitMs - Math.max(...missing.map((name) => groups.unplannedMs(name, nowMs)));
    return { transitions: [], hasNewProblems: false, requeueMs };
  }
  const { capacity, problem } = capacityOf(spec?.budget, dependencies.machine.facts?.());
  const isDeclared = spec !== undefined;
  const members = names.map((name) => memberOf(dependencies, name, { capacity, isDeclared }));
  const { maxWaitSeconds, minResidencySeconds } = spec ?? defaultTimes;
  const lent = loanOf(dependencies, group);
  const rules = {
    group,
    capacity,
    maxWaitMs: maxWaitSeconds * 1000,
    minResidencyMs: minResidencySeconds * 1000,
    ...(lent === undefined ? {} : { lentUntil: lent.until }),
  };
  const { changed, transitions, requeueMs } = groups.admit(group, members, rules, nowMs);
  for (const slot of changed) enqueue(slot);
  const status = groupStatus(
    {
      name: group,
      isDeclared,
      capacity,
      members,
      entries: groups.entriesOf(group),
      grants: (slot) => groups.grantOf(group, slot),
      nextGrants: (slot) => groups.nextGrantOf(group, slot),
      ...(lent === undefined ? {} : { lentUntil: lent.until }),
      unread,
      budgetProblem: problem,
    },
    before,
    clock.now(),
  );
  groups.recordStatus(status);
  const hasNewProblems = JSON.stringify(status.problems) !== JSON.stringify(before?.problems ?? []);
  const soonest = Math.min(requeueMs ?? Infinity, lent?.leftMs ?? Infinity);
  return { transitions, hasNewProblems, ...(soonest === Infinity ? {} : { requeueMs: soonest }) };
}

const defaultTimes = slotGroupSpecSchema.parse({});

/** The loan in force. */
function loanOf(
  { groupStore, clock }: GroupDependencies,
  group: string,
): { readonly until: string; readonly leftMs: number } | undefined {
  const until = groupStore.loan(group)?.until;
  const leftMs = at(until) - clock.now().getTime();
  return until === undefined || leftMs <= 0 ? undefined : { until, leftMs };
}

/** Declared slots of the group, and running slots whose manifest is gone. */
function membersOf({ source, published }: GroupDependencies, group: string): readonly string[] {
  const names = source.list("Slot").flatMap(({ name, spec }) => (spec?.group === group ? [name] : []));
  for (const [name, { spec, status }] of published) {
    if (spec.group === group && status.processes.length > 0 && source.get("Slot", name) === undefined) names.push(name);
  }
  return names;
}

/** A person has asked for the slot. */
function isLoadRequested({ requests }: GroupDependencies, name: string): boolean {
  return requests.list(name).some(({ kind }) => kind === "load" || kind === "restart");
}

function memberOf(
  dependencies: GroupDependencies,
  name: string,
  budget: { readonly capacity: Amounts; readonly isDeclared: boolean },
): Member {
  const { source, published, demand, groups, clock, machine } = dependencies;
  const slot = published.get(name);
  const spec = source.get("Slot", name)?.spec ?? slot?.spec;
  const status = slot?.status;
  const occupancy = groups.occupancyOf(name);
  const wanted = groups.wantedBy(name);
  let requests = 0;
  let lastUsedAt = Math.max(at(status?.idleSince), at(status?.readySince));
  const demands = demand.list().flatMap(({ slots }) => ownEntry(slots, name) ?? []);
  for (const demand of demands) {
    requests += demand.held + demand.inFlight;
    lastUsedAt = Math.max(lastUsedAt, at(demand.lastRequestAt));
  }
  const isLoaded = occupancy === "present";
  const facts = machine.facts?.();
  const wantedNeed = wanted === undefined ? undefined : needsOf(withFit(status, wanted), budget, facts);
  const ref = status?.model.ref;
  const model = ref === undefined ? undefined : dependencies.models().get(ref);
  return {
    name,
    ...(wantedNeed === undefined || isLoaded ? needsOf(status, budget, facts) : wantedNeed),
    isRequesting: occupancy === "requesting",
    isUnattended: requests === 0 && spec?.load !== "always" && !isLoadRequested(dependencies, name),
    isPresent: isLoaded || (status?.processes.length ?? 0) > 0,
    isReady: status !== undefined && isAvailable(status.state),
    isLeaving: preemption(status) !== undefined,
    isBusy: requests > 0,
    isAlways: spec?.load === "always",
    isPinned: spec?.pinned === true,
    priority: spec?.priority ?? 0,
    ...(spec === undefined ? {} : { startupSeconds: spec.probe.startupSeconds }),
    idleMs: Math.max(0, clock.now().getTime() - lastUsedAt),
    cost: returnCost({ status, spec, model, demand: demands }),
    ...(wanted !== undefined && wantedNeed !== undefined && isLoaded
      ? { next: { key: needKey(wanted), ...wantedNeed } }
      : {}),
  };
}

function withFit(status: SlotStatus | undefined, { fit }: WantedFit): Pick<SlotStatus, "fit" | "backend"> {
  const backend = status?.backend === undefined ? {} : { backend: status.backend };
  return { ...backend, ...(fit === undefined ? {} : { fit }) };
}
