import { computed } from "@preact/signals";
import { connection, lostBecause, problems, resources, slots } from "./live.ts";
import { firstConcern } from "./concern.ts";
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
  ...[...slots.value.values()].flatMap(({ name, state, conditions }) => {
    const concern = firstConcern(conditions);
    const isAbnormal = state === "error" || concern?.type === "Stalled" || concern?.type === "Degraded";
    return isAbnormal ? [{ what: name, message: concern?.message ?? "it has failed", href: slotPath(name) }] : [];
  }),
  ...[...resources.value.values()].flatMap(({ kind, name, conditions }) => {
    const concern = conditions.find(({ type, status }) => ["Stalled", "Degraded"].includes(type) && status === "True");
    return concern === undefined ? [] : [{ what: name, message: concern.message, href: pageOf[kind] }];
  }),
]);
