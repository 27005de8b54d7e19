import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { CatalogView, ModelView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { Drawer } from "../../shared/drawer.tsx";
import { bytes } from "../../shared/format.ts";
import { bodyOf, manifestOf, type NewSlot } from "../new-slot.ts";
import { go, slotPath } from "../router.ts";
import { Action } from "./action.tsx";
import { Show, useLoaded, type Loaded } from "./load.tsx";

const nothing: NewSlot = { name: "", model: "", load: "onDemand", aliases: "", context: "", group: "" };

/** Asks for a new slot, and shows the manifest that is written for it. */
export function NewSlotDialog({
  model = "",
  onClose,
}: {
  readonly model?: string;
  readonly onClose: () => void;
}): JSX.Element {
  const [models] = useLoaded(() => list<ModelView>("/api/models"));
  const here = models.state === "loading" ? [] : (models.value ?? []).map(({ id }) => id);
  const [slot, setSlot] = useState<NewSlot>({ ...nothing, model });
  const set = (change: Partial<NewSlot>): void => setSlot({ ...slot, ...change });
  const create = async (): Promise<void> => {
    // A slot waits for a model that is not here, and pulls none by itself.
    if (!here.includes(slot.model)) await call("/api/models/pull", { method: "POST", body: { model: slot.model } });
    await call("/api/slots", { method: "POST", body: bodyOf(slot) });
    onClose();
    await go(`/${slotPath(slot.name)}`);
  };
  return (
    <Drawer title="New slot" isDialog onClose={onClose}>
      <form class="fields" onSubmit={(event) => event.preventDefault()}>
        <label>
          Name
          <input
            autofocus
            value={slot.name}
            maxLength={63}
            placeholder="coder"
            onInput={(event) => set({ name: event.currentTarget.value.trim() })}
          />
        </label>
        <ModelChoice models={models} value={slot.model} onChange={(chosen) => set({ model: chosen })} />
        <label>
          Loaded
          <select
            value={slot.load}
            onChange={(event) => set({ load: event.currentTarget.value === "always" ? "always" : "onDemand" })}
          >
            <option value="onDemand">on demand: by a request, and unloaded when idle</option>
            <option value="always">always</option>
          </select>
        </label>
        <details>
          <summary>More</summary>
          <label>
            Aliases
            <input
              value={slot.aliases}
              placeholder="gpt-4o, code"
              onInput={(event) => set({ aliases: event.currentTarget.value })}
            />
          </label>
          <label>
            Context, in tokens
            <input
              type="number"
              min={1}
              value={slot.context}
              placeholder="as large as fits"
              onInput={(event) => set({ context: event.currentTarget.value })}
            />
          </label>
          <label>
            Group
            <input
              value={slot.group}
              placeholder="none"
              onInput={(event) => set({ group: event.currentTarget.value.trim() })}
            />
          </label>
        </details>
        <h3>Its manifest</h3>
        <pre aria-label="Manifest">{manifestOf(slot)}</pre>
        <div class="row">
          <Action isMain disabled={slot.name === "" || slot.model === ""} onClick={create}>
            Create
          </Action>
        </div>
      </form>
    </Drawer>
  );
}

interface ModelChoiceProps {
  readonly models: Loaded<readonly ModelView[]>;
  readonly value: string;
  readonly onChange: (model: string) => void;
}

/** The models that are here, and those of the catalogue that fit, which the slot pulls first. */
function ModelChoice({ models, value, onChange }: ModelChoiceProps): JSX.Element {
  const [catalog] = useLoaded(() => list<CatalogView>("/api/models/catalog"));
  return (
    <Show of={models}>
      {(here) => {
        const known = new Set(here.map(({ id }) => id));
        const others = catalog.state === "here" ? catalog.value : [];
        const fitting = others.filter(({ id, fit }) => !known.has(id) && fit.verdict !== "does_not_fit");
        return (
          <label>
            Model
            <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
              <option value="">a model …</option>
              <optgroup label="On this machine">
                {here.map(({ id, size_bytes: size }) => (
                  <option key={id} value={id}>
                    {id} · {bytes(size)}
                  </option>
                ))}
              </optgroup>
              <optgroup label="Pulled first">
                {fitting.map(({ id, title, size_bytes: size }) => (
                  <option key={id} value={id}>
                    {title} · {bytes(size)}
                  </option>
                ))}
              </optgroup>
            </select>
          </label>
        );
      }}
    </Show>
  );
}
