import { computed } from "@preact/signals";
import { connection, lostBecause, problems, resources, slots } from "./live.ts";
import { firstConcern } from "./concern.ts";
import { isFailing } from "./failures.ts";
import { slotPath } from "./router.ts";

/** Something that a person should mend. */
export interface Trouble {
  readonly what: string;
  readonly message: string;
  /** The address of the page where it is mended; undefined: no page mends it. */
  readonly href?: string;
}

const pageOf = { Model: "ui/models", Upstream: "ui/providers", SlotGroup: "ui/machine" } as const;

/** All that needs a person now, the worst first. */
export const troubles = computed((): readonly Trouble[] => [
  ...(["lost", "refused"].includes(connection.value) ? [{ what: "Connection", message: lostBecause.value }] : []),
  ...problems.value.map(({ file, message }) => ({ what: file ?? "Configuration", message })),
  ...[...slots.value.values()].flatMap((slot) => {
    const { name, conditions } = slot;
    const concern = firstConcern(conditions);
    const isAbnormal = isFailing(slot) || concern?.type === "Stalled" || concern?.type === "Degraded";
    const message = slot.state === "error" || !isFailing(slot) ? concern?.message : slot.last_error?.message;
    return isAbnormal ? [{ what: name, message: message ?? "it has failed", href: slotPath(name) }] : [];
  }),
  ...[...resources.value.values()].flatMap(({ kind, name, conditions }) => {
    const concern = conditions.find(({ type, status }) => ["Stalled", "Degraded"].includes(type) && status === "True");
    return concern === undefined ? [] : [{ what: name, message: concern.message, href: pageOf[kind] }];
  }),
]);
