import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { stateWords, type StateWords } from "../../../src/api/state-words.ts";
import { Pill } from "../../shared/pill.tsx";

type Described = Pick<SlotView, "state" | "in_flight" | "progress" | "conditions">;

/** A slot's state in words that need no list of states, and never by its colour alone. */
export function State({ slot }: { readonly slot: Described }): JSX.Element {
  const words = stateWords(slot);
  return (
    <span class="state">
      <Pill tone={words.tone} form={formOf(words, slot)}>
        {words.text}
      </Pill>
      {words.aside !== undefined && <span class="quiet"> {words.aside}</span>}
    </span>
  );
}

function formOf({ tone, text }: StateWords, { state }: Described): "pulses" | "hollow" | "dashed" | undefined {
  if (text === "Not set up") return "dashed";
  if (tone === "off") return "hollow";
  return state === "serving" ? "pulses" : undefined;
}

type Condition = SlotView["conditions"][number];

/** The condition that a person should read first; undefined where all is as declared. */
export function firstConcern(conditions: readonly Condition[]): Condition | undefined {
  const isOn = (type: string): Condition | undefined =>
    conditions.find((each) => each.type === type && each.status === "True");
  const notReady = conditions.find(({ type, status }) => type === "Ready" && status !== "True");
  const notConfigured = conditions.find(({ reason }) => reason === "NotConfigured");
  return isOn("Stalled") ?? isOn("Degraded") ?? isOn("Reconciling") ?? notReady ?? notConfigured;
}

/** What a person can do about a slot, by its reason; undefined where waiting is all there is to do, or nothing. */
export function nextStep(slot: SlotView): string | undefined {
  const concern = firstConcern(slot.conditions);
  switch (concern?.reason) {
    case undefined:
      return undefined;
    case "NotConfigured":
      return "Nothing is wrong: this slot is built in, and does nothing until it is set up.";
    case "InvalidSpec":
      return "Correct the manifest at the place that the message names, and save it.";
    case "ModelNotFound":
      return "Fetch the model on the page Models, or choose another one with Swap.";
    case "DoesNotFit":
      return "Choose a smaller model or context, or unload another slot that holds the memory.";
    case "OutOfMemory":
      return "Lower the context or choose a smaller model; Restart tries again at once.";
    case "NotOnGpu":
      return "Look at the page Machine: it says what this machine allows, and why.";
    case "NoChatTemplate":
      return "Choose a model that was made for chats with Swap; the manifest can say that this slot only completes texts.";
    case "LicenseNotAccepted":
      return "Read and accept the licence on the page Models.";
    default:
      return slot.state === "error" ? "Read the log; Restart tries again at once." : undefined;
  }
}
