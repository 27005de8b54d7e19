import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SlotView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { modelChanges } from "../live.ts";
import { Action } from "./action.tsx";
import { isFor } from "../use-model.ts";
import { Show, useLoaded } from "./load.tsx";

/** Writes the first manifest of a built-in slot: it holds one of the models that are here. */
export function SetUp({ slot, onDone }: { readonly slot: SlotView; readonly onDone: () => void }): JSX.Element {
  const [models] = useLoaded(() => list("GET /api/models"), [modelChanges.value]);
  const [chosen, setChosen] = useState("");
  const create = (): Promise<unknown> =>
    call("POST /api/slots", { body: { name: slot.name, model: { default: chosen } } });
  return (
    <Show of={models}>
      {(all) => {
        const fitting = all.filter((model) => model.state !== "missing" && isFor(slot, model));
        if (fitting.length === 0)
          return (
            <p>
              No model is here yet that this slot could hold. The page <a href="ui/models">Models</a> fetches one.
            </p>
          );
        return (
          <div class="row">
            <label>
              <span class="unseen">Model to hold</span>
              <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
                <option value="">a model …</option>
                {fitting.map(({ id }) => (
                  <option key={id}>{id}</option>
                ))}
              </select>
            </label>
            <Action isMain disabled={chosen === ""} onClick={create} onDone={onDone}>
              Set up
            </Action>
          </div>
        );
      }}
    </Show>
  );
}
