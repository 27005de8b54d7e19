import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import type { BuiltinSlot } from "../../../src/api/names.ts";
import { base, call } from "../../shared/api.ts";
import { copy } from "../../shared/copy.ts";
import { Menu } from "../../shared/menu.tsx";
import { acting, toast } from "../../shared/toast.tsx";
import { linesFor } from "../client-lines.ts";
import { lacksModel } from "../concern.ts";
import { dropDraft } from "../drafts.ts";
import { focusHeading } from "../focus.ts";
import { go, slotPath } from "../router.ts";
import { Action } from "./action.tsx";
import { ask } from "./ask.tsx";

/** Does something with a slot on the server. */
export function act(slot: string, what: "load" | "unload" | "restart"): Promise<unknown> {
  return call(`POST /api/slots/{name}/${what}`, { params: { name: slot } });
}

/** The built-in slots are there without a manifest, too; the server deletes none of them. */
const builtin = { primary: true, embed: true, stt: true, tts: true, img: true } satisfies Record<BuiltinSlot, true>;

async function remove({ name, file }: SlotView, isPage: boolean): Promise<void> {
  const text = `Delete ${name}? Its manifest ${file} is removed and its engine stops; the model stays on this machine.`;
  if (!(await ask({ text, yes: "Delete" }))) return;
  await acting(async () => {
    await call("DELETE /api/slots/{name}", { params: { name } });
    dropDraft(name);
    if (isPage) await go("/");
    focusHeading();
  }, `${name} is deleted.`);
}

interface SlotActionsProps {
  readonly slot: SlotView;
  /** Whether the page is this slot's alone: to talk to it is the first thing to do there. */
  readonly isPage?: boolean;
}

/** Talk to it, load or unload it, and the rest behind the dots. */
export function SlotActions({ slot, isPage = false }: SlotActionsProps): JSX.Element {
  const { name, enabled, capabilities, state } = slot;
  const canChat = capabilities.some((each) => each === "chat") && state !== "error";
  const [line] = linesFor(slot, new URL("v1", base).href);
  return (
    <div class="row actions">
      {canChat && enabled && (
        <a
          class={isPage ? "button main" : "button"}
          href={`chat/?model=${encodeURIComponent(name)}`}
          target="_self"
          aria-label={`Chat with ${name}`}
        >
          Chat
        </a>
      )}
      {enabled && (slot.processes.length > 0 || !lacksModel(slot)) && <LoadButton slot={slot} />}
      <Menu
        label={`More for ${name}`}
        items={[
          { name: "Restart", act: () => void acting(() => act(name, "restart"), `${name} restarts.`) },
          { name: "Edit the manifest", act: `${slotPath(name)}/manifest` },
          { name: "Show the log", act: `${slotPath(name)}/log` },
          { name: "Copy the name", act: () => void copy(name).then(toast) },
          ...(line === undefined ? [] : [{ name: `Copy ${line.name}`, act: () => void copy(line.text).then(toast) }]),
          ...(slot.file === null || Object.hasOwn(builtin, name)
            ? []
            : [{ name: "Delete", isDanger: true, act: () => void remove(slot, isPage) }]),
        ]}
      />
    </div>
  );
}

/** Loads a slot that is not loaded, and unloads one that is; the second can be taken back. */
export function LoadButton({ slot }: { readonly slot: Pick<SlotView, "name" | "processes"> }): JSX.Element {
  const { name } = slot;
  const isLoaded = slot.processes.length > 0;
  const word = isLoaded ? "Unload" : "Load";
  return (
    <Action
      label={`${word} ${name}`}
      onClick={() => act(name, isLoaded ? "unload" : "load")}
      onDone={() => {
        if (isLoaded) toast(`${name} unloads.`, () => void acting(() => act(name, "load"), `${name} loads again.`));
      }}
    >
      {word}
    </Action>
  );
}
