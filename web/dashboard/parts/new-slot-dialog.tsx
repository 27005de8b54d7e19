import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import type { CatalogView, ModelView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { Drawer } from "../../shared/drawer.tsx";
import { bytes } from "../../shared/format.ts";
import { bodyOf, clashesOf, manifestOf, type NewSlot } from "../new-slot.ts";
import { modelChanges, slots } from "../live.ts";
import { go, slotPath } from "../router.ts";
import { isSetUp } from "../slot-order.ts";
import { Action } from "./action.tsx";
import { Show, useLoaded, type Loaded } from "./load.tsx";
import { OutsideLink } from "./outside-link.tsx";

const nothing: NewSlot = { name: "", model: "", load: "onDemand", aliases: "", context: "", group: "" };

/** Asks for a new slot, and shows the manifest that is written for it. */
export function NewSlotDialog({
  model = "",
  onClose,
}: {
  readonly model?: string;
  readonly onClose: () => void;
}): JSX.Element {
  const [models] = useLoaded(() => list("GET /api/models"), [modelChanges.value]);
  const here = models.state === "loading" ? [] : (models.value ?? []).map(({ id }) => id);
  const [catalog] = useLoaded(() => list("GET /api/models/catalog"));
  const offered = (catalog.state === "here" ? catalog.value : []).filter(({ id }) => !here.includes(id));
  const [slot, setSlot] = useState<NewSlot>({ ...nothing, model });
  const [accepted, setAccepted] = useState("");
  const set = (fields: Partial<NewSlot>): void => setSlot({ ...slot, ...fields });
  const rule = useId();
  const asked = offered.find(({ id, must_accept: mustAccept }) => id === slot.model && mustAccept);
  const create = async (): Promise<void> => {
    // A slot waits for a model that is not here, and pulls none by itself. Nothing is pulled for a slot that cannot be made.
    if (!here.includes(slot.model)) {
      await check(slot);
      const consent = asked === undefined ? {} : { accept_license: true };
      await call("POST /api/models/pull", { body: { model: slot.model, ...consent } });
    }
    await call("POST /api/slots", { body: bodyOf(slot) });
    onClose();
    await go(`/${slotPath(slot.name)}`);
  };
  const missing =
    slot.name === ""
      ? "a name"
      : slot.model === ""
        ? "a model"
        : asked !== undefined && accepted !== asked.id
          ? "your consent to the licence"
          : undefined;
  return (
    <Drawer title="New slot" isDialog onClose={onClose}>
      <form class="fields" onSubmit={(event) => event.preventDefault()}>
        <label>
          Name
          <input
            autofocus
            value={slot.name}
            maxLength={32}
            aria-describedby={rule}
            placeholder="coder"
            onInput={(event) => set({ name: event.currentTarget.value.trim() })}
          />
        </label>
        <p class="hint quiet" id={rule}>
          Lower-case letters, digits and dashes, not at the ends. Clients ask for it by this name.
        </p>
        <ModelChoice
          models={models}
          offered={offered}
          value={slot.model}
          onChange={(chosen) => set({ model: chosen })}
        />
        {asked !== undefined && (
          <label>
            <span>
              <input
                type="checkbox"
                checked={accepted === asked.id}
                onChange={(event) => setAccepted(event.currentTarget.checked ? asked.id : "")}
              />{" "}
              I have read and accept <OutsideLink href={asked.license_url}>{asked.license}</OutsideLink>, the licence of{" "}
              {asked.title}, which forbids some use.
            </span>
          </label>
        )}
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
        <div role="status">
          {clashesOf(slot, slots.value.values()).map((clash) => (
            <p key={clash} class="banner care">
              {clash}
            </p>
          ))}
        </div>
        <h3>Its manifest</h3>
        <pre aria-label="Manifest">{manifestOf(slot)}</pre>
        <div class="row">
          <Action isMain disabled={missing !== undefined} onClick={create}>
            Create
          </Action>
          {missing !== undefined && <span class="quiet">It needs {missing}.</span>}
        </div>
      </form>
    </Drawer>
  );
}

/** Rejects where the server would not take the slot's manifest, or has one of that name. */
async function check(slot: NewSlot): Promise<void> {
  const known = slots.value.get(slot.name);
  if (known !== undefined && isSetUp(known)) throw new Error(`There is a slot ${slot.name} already.`);
  const files = { [`slots/${slot.name}.toml`]: manifestOf(slot) };
  const { diagnostics } = await call("POST /api/config/validate", { body: { files } });
  const [first] = diagnostics;
  if (first !== undefined) throw new Error(first.message);
}

interface ModelChoiceProps {
  readonly models: Loaded<readonly ModelView[]>;
  /** The models of the catalogue that are not here. */
  readonly offered: readonly CatalogView[];
  readonly value: string;
  readonly onChange: (model: string) => void;
}

/** The models that are here, and those of the catalogue that fit, which the slot pulls first. */
function ModelChoice({ models, offered, value, onChange }: ModelChoiceProps): JSX.Element {
  return (
    <Show of={models}>
      {(here) => {
        const fitting = offered.filter(({ fit }) => fit.verdict !== "does_not_fit");
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
