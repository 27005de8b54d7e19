import { stateWords, type StateWords } from "../api/state-words.ts";
import { isUnloadedByHand } from "../api/unloaded.ts";
import { slotStates } from "../api/states.ts";
import { cell, isRecord, recordsIn } from "./output.ts";

type Row = Readonly<Record<string, unknown>>;

/** A slot's condition of that type, or undefined. */
export function conditionOf(row: Row, type: string): Record<string, unknown> | undefined {
  return recordsIn(row["conditions"]).find((condition) => condition["type"] === type);
}

/** Undefined for a state that this version does not know. */
function wordsOf(row: Row): StateWords | undefined {
  const state = slotStates.find((each) => each === row["state"]);
  if (state === undefined) return undefined;
  const { in_flight: inFlight, progress } = row;
  const { bytes_done: done = 0, bytes_total: total = null } = isRecord(progress) ? progress : {};
  return stateWords({
    state,
    in_flight: typeof inFlight === "number" ? inFlight : 0,
    progress: typeof done === "number" && typeof total === "number" ? { bytes_done: done, bytes_total: total } : null,
    conditions: recordsIn(row["conditions"]).map(({ type, reason }) => ({ type: cell(type), reason: cell(reason) })),
  });
}

/** `On demand`, `Failed (CrashLoop)`; the reason is added where something is wrong, also with a slot that answers. */
export function readyCell(row: Row): string {
  const words = wordsOf(row);
  if (words === undefined) return cell(row["state"]);
  const isOn = (condition: Record<string, unknown> | undefined): boolean => condition?.["status"] === "True";
  const wrong =
    words.tone === "bad"
      ? conditionOf(row, "Ready")
      : [conditionOf(row, "Stalled"), conditionOf(row, "Degraded")].find(isOn);
  return wrong === undefined ? words.text : `${words.text} (${cell(wrong["reason"])})`;
}

/** `offline (On demand: loads with the first request)`; the state alone where the words say the same. */
export function stateLine(row: Row): string {
  const state = cell(row["state"]);
  const words = wordsOf(row);
  if (words === undefined) return state;
  const aside = words.aside === undefined || words.aside === state ? "" : `: ${words.aside}`;
  return words.text.toLowerCase() === state && aside === "" ? state : `${state} (${words.text}${aside})`;
}

/** Whether somebody has configured the slot: a built-in slot without a manifest does nothing. */
function isSetUp(row: Row): boolean {
  return !recordsIn(row["conditions"]).some(({ reason }) => reason === "NotConfigured");
}

/** The slots that somebody has configured, and a line with the names of the others, which is empty without others. */
export function foldedSlots(slots: readonly Row[]): { readonly rows: readonly Row[]; readonly others: string } {
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
export function byHand(row: Row): { readonly title: string; readonly text: string }[] {
  const name = cell(row["name"]);
  const ready = conditionOf(row, "Ready");
  const unloaded =
    row["state"] === "offline" && ready !== undefined && isUnloadedByHand(cell(ready["reason"]))
      ? [
          {
            title: "unloaded by hand",
            text: `${cell(ready["message"])}; \`berth slot load ${name}\` loads it ${ready["reason"] === "Unloaded" ? "again" : "now"}`,
          },
        ]
      : [];
  const swapped =
    row["model_origin"] === "swap"
      ? [
          {
            title: "swapped by hand",
            text: `${cell(row["model"])} is in place of the manifest's model; \`berth slot swap ${name} --reset\` goes back`,
          },
        ]
      : [];
  return [...unloaded, ...swapped];
}
