import { stateWords, type StateWords } from "../api/state-words.ts";
import { isUnloadedByHand } from "../api/unloaded.ts";
import { slotStates } from "../api/states.ts";
import type { Condition } from "../api/conditions.ts";
import type { SlotView } from "../api/management/views.ts";
import { cell } from "./output.ts";
import type { Received } from "./received.ts";

/** A slot of a list. */
export type SlotRow = Received<SlotView>;

/** A slot's condition of that type, or undefined. */
export function conditionOf({ conditions }: SlotRow, type: string): Received<Condition> | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** Undefined for a state that this version does not know. */
function wordsOf(row: SlotRow): StateWords | undefined {
  const state = slotStates.find((each) => each === row.state);
  if (state === undefined) return undefined;
  const { bytes_done: done, bytes_total: total } = row.progress ?? {};
  return stateWords({
    state,
    in_flight: row.in_flight ?? 0,
    progress: typeof total === "number" ? { bytes_done: done ?? 0, bytes_total: total } : null,
    conditions: (row.conditions ?? []).map(({ type, reason }) => ({ type: cell(type), reason: cell(reason) })),
  });
}

/** `On demand`, `Failed (CrashLoop)`; the reason is added where something is wrong, also with a slot that answers. */
export function readyCell(row: SlotRow): string {
  const words = wordsOf(row);
  if (words === undefined) return cell(row.state);
  const isOn = (condition: Received<Condition> | undefined): boolean => condition?.status === "True";
  const wrong =
    words.tone === "bad"
      ? conditionOf(row, "Ready")
      : [conditionOf(row, "Stalled"), conditionOf(row, "Degraded")].find(isOn);
  return wrong === undefined ? words.text : `${words.text} (${cell(wrong.reason)})`;
}

/** `offline (On demand: loads with the first request)`; the state alone where the words say the same. */
export function stateLine(row: SlotRow): string {
  const state = cell(row.state);
  const words = wordsOf(row);
  if (words === undefined) return state;
  const aside = words.aside === undefined || words.aside === state ? "" : `: ${words.aside}`;
  return words.text.toLowerCase() === state && aside === "" ? state : `${state} (${words.text}${aside})`;
}

/** Whether somebody has configured the slot: a built-in slot without a manifest does nothing. */
function isSetUp(row: SlotRow): boolean {
  return !(row.conditions ?? []).some(({ reason }) => reason === "NotConfigured");
}

/** The slots that somebody has configured, and a line with the names of the others, which is empty without others. */
export function foldedSlots(slots: readonly SlotRow[]): { readonly rows: readonly SlotRow[]; readonly others: string } {
  const rows = slots.filter(isSetUp);
  const names = slots.filter((slot) => !rows.includes(slot)).map(({ name }) => cell(name));
  const [first] = names;
  if (first === undefined) return { rows, others: "" };
  return {
    rows,
    others: `\nNot set up: ${names.join(", ")} (\`berth slot create ${first} --model REF\` sets ${first} up)\n`,
  };
}

/** The changes that somebody made by hand beside the manifest, each with the command that undoes it. */
export function byHand(row: SlotRow): { readonly title: string; readonly text: string }[] {
  const name = cell(row.name);
  const ready = conditionOf(row, "Ready");
  const unloaded =
    row.state === "offline" && ready !== undefined && isUnloadedByHand(cell(ready.reason))
      ? [
          {
            title: "unloaded by hand",
            text: `${cell(ready.message)}; \`berth slot load ${name}\` loads it ${ready.reason === "Unloaded" ? "again" : "now"}`,
          },
        ]
      : [];
  const swapped =
    row.model_origin === "swap"
      ? [
          {
            title: "swapped by hand",
            text: `${cell(row.model)} is in place of the manifest's model; \`berth slot swap ${name} --reset\` goes back`,
          },
        ]
      : [];
  return [...unloaded, ...swapped];
}
