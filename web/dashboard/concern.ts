import type { SlotView } from "../../src/api/management/views.ts";
import { isFailing } from "./failures.ts";
import { slotPath } from "./router.ts";

type Condition = SlotView["conditions"][number];

/** The condition that a person should read first; undefined where all is as declared. */
export function firstConcern(conditions: readonly Condition[]): Condition | undefined {
  const isOn = (type: string): Condition | undefined =>
    conditions.find((each) => each.type === type && each.status === "True");
  const notReady = conditions.find(({ type, status }) => type === "Ready" && status !== "True");
  const notConfigured = conditions.find(({ reason }) => reason === "NotConfigured");
  return isOn("Stalled") ?? isOn("Degraded") ?? isOn("Reconciling") ?? notReady ?? notConfigured;
}

const modelReasons: ReadonlySet<string> = new Set(["ModelNotFound", "ModelFileMissing", "LicenseNotAccepted"]);

/** Whether the slot's model must come first: nothing can be loaded. */
export function lacksModel({ conditions }: Pick<SlotView, "conditions">): boolean {
  return modelReasons.has(firstConcern(conditions)?.reason ?? "");
}

interface Remedy {
  /** The next step in a sentence. */
  readonly says: string;
  /** The button that leads to it. */
  readonly word: string;
  readonly href: string;
}

/** The next step of a person about a slot, by its reason; undefined where waiting is all there is to do, or nothing. */
export function remedyOf(slot: SlotView): Remedy | undefined {
  const { name, model, conditions, processes } = slot;
  const again =
    processes.length === 0 ? "“Load” tries again at once." : "“Restart”, behind the dots, tries again at once.";
  const at = slotPath(name);
  switch (firstConcern(conditions)?.reason ?? "") {
    case "NotConfigured":
      return {
        says: "Nothing is wrong: this slot is built in, and does nothing until it is set up.",
        word: "Set up",
        href: `${at}/manifest`,
      };
    case "InvalidSpec":
      return {
        says: "Correct the manifest at the place that the message names, and save it.",
        word: "Edit the manifest",
        href: `${at}/manifest`,
      };
    case "ModelNotFound":
      return model === null
        ? { says: "Choose a model under Model.", word: "Choose a model", href: at }
        : {
            says: "Look for the model on the page Models, or choose another one under Model.",
            word: `Find ${model}`,
            href: findPath(model),
          };
    case "ModelFileMissing":
      return {
        says: "Nothing can be pulled: its file was on this machine. Put the file back, or choose another one under Model.",
        word: "Choose a model",
        href: at,
      };
    case "LicenseNotAccepted":
      return {
        says: "Read and accept the licence on the page Models.",
        word: `Pull ${model ?? "the model"}`,
        href: findPath(model ?? ""),
      };
    case "DoesNotFit":
      return {
        says: "Choose a smaller model or context, or unload another slot that holds the memory.",
        word: "Choose a model",
        href: at,
      };
    case "OutOfMemory":
      return {
        says: `Lower the context or choose a smaller model. ${again}`,
        word: "Choose a model",
        href: at,
      };
    case "NoChatTemplate":
      return {
        says: "Choose a model that was made for chats under Model; the manifest can say that this slot only completes texts.",
        word: "Choose a model",
        href: at,
      };
    case "NotOnGpu":
      return {
        says: "Look at the page Machine: it says what this machine allows, and why.",
        word: "See the machine",
        href: "ui/machine",
      };
    default:
      return isFailing(slot) ? { says: `Read the log. ${again}`, word: "Show the log", href: `${at}/log` } : undefined;
  }
}

/** The page Models, which looks for that model. */
function findPath(model: string): string {
  return `ui/models?find=${encodeURIComponent(model)}`;
}
