import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ModelView, SlotView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { Menu } from "../../shared/menu.tsx";
import { Pill } from "../../shared/pill.tsx";
import { acting } from "../../shared/toast.tsx";
import { focusHeading } from "../focus.ts";
import { slots } from "../live.ts";
import { parametersText } from "../model-kinds.ts";
import { slotPath } from "../router.ts";
import { isSetUp } from "../slot-order.ts";
import { slotsFor } from "../use-model.ts";
import { ask } from "./ask.tsx";
import { benchmarkText } from "./benchmark.ts";
import { capabilityWords } from "./capability-words.ts";
import { NewSlotDialog } from "./new-slot-dialog.tsx";
import { PullButton } from "./pull-button.tsx";

const states = {
  available: ["off", "Here"],
  assigned: ["good", "In use"],
  missing: ["bad", "Missing"],
  unsupported: ["busy", "No engine for it"],
  invalid: ["bad", "Damaged"],
} as const satisfies Record<ModelView["state"], readonly ["off" | "good" | "bad" | "busy", string]>;

/** A model of this machine. */
export function ModelCard({
  model,
  onChange,
}: {
  readonly model: ModelView;
  readonly onChange: () => void;
}): JSX.Element {
  const [isCreating, setCreating] = useState(false);
  const { id, parameters, quantization, context_length: context } = model;
  // A newer server may know other states: its own word then.
  const [tone, word] = Object.hasOwn(states, model.state) ? states[model.state] : (["off", model.state] as const);
  const facts = [
    parameters === null ? undefined : parametersText(parameters),
    quantization ?? undefined,
    bytes(model.size_bytes),
    context === null ? undefined : `${Math.round(context / 1024)}k context`,
    capabilityWords(model.capabilities),
    model.license ?? undefined,
  ].filter((fact) => fact !== undefined && fact !== "");
  const talker = model.slots.map((name) => slots.value.get(name)).find((slot) => slot !== undefined && canChat(slot));
  const isUsable = model.state === "available" || model.state === "assigned";
  const remove = async (): Promise<void> => {
    if (!(await ask({ text: `Remove ${id} and its files?`, yes: "Remove" }))) return;
    await acting(async () => {
      await call("DELETE /api/models/{ref}", { params: { ref: id }, query: { files: "1" } });
      focusHeading();
      onChange();
    }, `${id} is removed.`);
  };
  return (
    <li class="card slot-card" aria-label={id}>
      <div class="slot-head">
        <h3>{id}</h3>
        <Pill tone={tone}>{word}</Pill>
      </div>
      <p class="quiet">{facts.join(" · ")}</p>
      {model.message !== null && <p>{model.message}</p>}
      {model.last_benchmark && <p class="quiet">{benchmarkText(model.last_benchmark)}</p>}
      {model.slots.length > 0 && (
        <p>
          Used by{" "}
          {model.slots.map((slot, at) => (
            <>
              {at > 0 && ", "}
              <a key={slot} href={slotPath(slot)}>
                {slot}
              </a>
            </>
          ))}
        </p>
      )}
      <div class="row">
        {model.state === "missing" && (
          <PullButton label={`Pull ${id}`} of={id} body={{ model: id }} onDone={onChange} />
        )}
        <span class="row actions">
          {talker !== undefined && (
            <a
              class="button"
              href={`chat/?model=${encodeURIComponent(talker.name)}`}
              target="_self"
              aria-label={`Chat with ${id}`}
            >
              Chat
            </a>
          )}
          {isUsable && (
            <Menu
              label={`Use in… ${id}`}
              word="Use in…"
              items={[
                ...slotsFor(model, [...slots.value.values()]).map((slot) => ({
                  name: isSetUp(slot) ? slot.name : `${slot.name} (not set up)`,
                  act: () => void giveTo(slot, id),
                })),
                { name: "A new slot …", act: () => setCreating(true) },
              ]}
            />
          )}
          <Menu
            label={`More for ${id}`}
            items={[
              ...(isUsable ? [{ name: "Check its files", act: () => void verify(id) }] : []),
              { name: "Remove", isDanger: true, act: () => void remove() },
            ]}
          />
        </span>
      </div>
      {isCreating && <NewSlotDialog model={id} onClose={() => setCreating(false)} />}
    </li>
  );
}

/** Whether a chat with the slot is answered, now or once it has loaded. */
function canChat({ capabilities, enabled, state }: SlotView): boolean {
  return enabled && state !== "error" && capabilities.some((each) => each === "chat");
}

/** Swaps the slot to the model until its manifest changes; a built-in slot that is not set up gets a manifest with the model. */
async function giveTo(slot: SlotView, id: string): Promise<void> {
  const { name } = slot;
  const give = isSetUp(slot)
    ? () => call("POST /api/slots/{name}/swap", { params: { name }, body: { model: id } })
    : () => call("POST /api/slots", { body: { name, model: { default: id } } });
  await acting(give, `${name} holds ${id} now.`);
}

/** Compares the files with their checksums; the strip of the pulls tells how far, and where one is damaged. */
async function verify(id: string): Promise<void> {
  await acting(
    () => call("POST /api/models/verify", { body: { model: id } }),
    `The files of ${id} are read and compared.`,
  );
}
