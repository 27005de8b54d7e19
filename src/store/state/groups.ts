import {
  groupLoanSchema,
  publishedGroupsSchema,
  type GroupLoan,
  type GroupStatus,
  type PublishedGroups,
} from "../../api/group-status.ts";
import { knownPart } from "../../api/known-part.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { OpenDocuments } from "../documents.ts";

/** `<state>/groups/`: what the operator says of groups, and their loans, one file each. */
export interface GroupStore extends AsyncDisposable {
  /** Also a loan that is over. */
  loan(group: string): GroupLoan | undefined;
  /** Survives a power cut once resolved. */
  lend(loan: GroupLoan): Promise<void>;
  /** `until`: only the loan that ends at that time, and not another one that has replaced it. */
  endLoan(group: string, until?: string): Promise<void>;
  published(): readonly GroupStatus[];
  publish(groups: readonly GroupStatus[]): Promise<void>;
  /** Calls `onChange` with the groups whose loans came, changed or went; with none where the published ones changed. */
  watch(onChange: (groups: readonly string[]) => void): Disposable;
}

const statusName = "status";
const loanPrefix = "loan.";

/** Used by both sides: a gateway lends, the operator publishes. */
export async function openGroupStore(open: OpenDocuments): Promise<GroupStore> {
  const subscribers = new Subscribers<[groups: readonly string[]]>();
  const documents = await open<GroupLoan | PublishedGroups>("groups", {
    parse: (value) => knownPart(publishedGroupsSchema, value) ?? groupLoanSchema.safeParse(value).data,
    onChange: (names) => subscribers.notify(names.flatMap((name) => groupIn(name) ?? [])),
  });
  return {
    loan(group) {
      const value = documents.get(loanName(group));
      return value !== undefined && "until" in value && value.group === group ? value : undefined;
    },
    lend: (loan) => documents.put(loanName(loan.group), groupLoanSchema.parse(loan), { isLasting: true }),
    async endLoan(group, until) {
      if (until === undefined) await documents.delete(loanName(group));
      else await documents.deleteIf(loanName(group), (loan) => "until" in loan && loan.until === until);
    },
    published() {
      const value = documents.get(statusName);
      return value !== undefined && "groups" in value ? value.groups : [];
    },
    publish: (groups) =>
      documents.put(statusName, { schema: 1, groups: [...groups] }, { isLasting: false, isKept: true }),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => documents[Symbol.asyncDispose](),
  };
}

/** A group's name is any text that a manifest has; a document's has letters, digits, dashes, dots and underscores. */
function loanName(group: string): string {
  const safe = [...Buffer.from(group)].map((byte) => {
    const letter = String.fromCharCode(byte);
    return /[A-Za-z0-9-]/.test(letter) ? letter : `_${byte.toString(16).padStart(2, "0")}`;
  });
  return `${loanPrefix}${safe.join("")}`;
}

function groupIn(name: string): string | undefined {
  if (!name.startsWith(loanPrefix)) return undefined;
  const bytes = name.slice(loanPrefix.length).matchAll(/_([0-9a-f]{2})|[^_]/g);
  return Buffer.from(
    [...bytes].map(([letter, hex]) => (hex === undefined ? letter.charCodeAt(0) : parseInt(hex, 16))),
  ).toString();
}
