import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { slotPath } from "../router.ts";
import { firstConcern } from "./state.tsx";

/** A button that leads to where the trouble of a slot is mended; nothing where waiting is all there is to do. */
export function Remedy({ slot }: { readonly slot: SlotView }): JSX.Element | null {
  const to = remedyOf(slot);
  return to === undefined ? null : (
    <a class="button" href={to.href}>
      {to.word}
    </a>
  );
}

function remedyOf({ name, state, conditions }: SlotView): { readonly word: string; readonly href: string } | undefined {
  const at = slotPath(name);
  switch (firstConcern(conditions)?.reason ?? "") {
    case "NotConfigured":
      return { word: "Set up", href: `${at}/manifest` };
    case "InvalidSpec":
      return { word: "Edit the manifest", href: `${at}/manifest` };
    case "ModelNotFound":
    case "LicenseNotAccepted":
      return { word: "Pull the model", href: "ui/models" };
    case "DoesNotFit":
    case "OutOfMemory":
    case "NoChatTemplate":
      return { word: "Choose a model", href: at };
    case "NotOnGpu":
      return { word: "See the machine", href: "ui/machine" };
    default:
      return state === "error" ? { word: "Show the log", href: `${at}/log` } : undefined;
  }
}
