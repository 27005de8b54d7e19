import type { GroupLoan, GroupStatus, PublishedGroups } from "../../api/group-status.ts";
import type { DocumentSet } from "../document-set.ts";

/** The operator's word on groups, and their loans: a gateway lends, the operator publishes. */
export interface GroupStore {
  /** Also a loan that is over. */
  loan(group: string): GroupLoan | undefined;
  /** Survives a power cut once resolved. */
  lend(loan: GroupLoan): Promise<void>;
  /** `until`: only the loan that ends at that time, and not another one that has replaced it. */
  endLoan(group: string, until?: string): Promise<void>;
  published(): readonly GroupStatus[];
  publish(groups: readonly GroupStatus[]): Promise<void>;
  /** Calls `onLoan` with the groups whose loans came, changed or went. */
  watch(onLoan: (groups: readonly string[]) => void): Disposable;
}

export function groupStore(loans: DocumentSet<GroupLoan>, groups: DocumentSet<PublishedGroups>): GroupStore {
  return {
    loan: (group) => loans.get(group),
    lend: (loan) => loans.put(loan),
    endLoan: (group, until) => loans.remove(group, until === undefined ? undefined : (loan) => loan.until === until),
    published: () => groups.only()?.groups ?? [],
    publish: (now) => groups.put({ schema: 1, groups: [...now] }),
    watch: (onLoan) => loans.watch(onLoan),
  };
}
