import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ModelView, SlotView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { Action } from "./action.tsx";
import { useLoaded } from "./load.tsx";

/** Has a slot hold another model, or its manifest's own again. */
export function SwapForm({ slot, at }: { readonly slot: SlotView; readonly at: string }): JSX.Element {
  const [models] = useLoaded(() => list<ModelView>("/api/models"));
  const [chosen, setChosen] = useState("");
  const known = models.state === "here" ? models.value : [];
  const swap = (): Promise<unknown> => call(`${at}/swap`, { method: "POST", body: { model: chosen } });
  const reset = (): Promise<unknown> => call(`${at}/swap`, { method: "POST", body: { reset: true } });
  return (
    <>
      <label>
        <span class="unseen">Model to swap in</span>
        <select value={chosen} onChange={(event) => setChosen(event.currentTarget.value)}>
          <option value="">another model …</option>
          {known
            .filter(({ id, state }) => id !== slot.model && state !== "invalid")
            .map(({ id, state }) => (
              <option key={id} value={id}>
                {id}
                {state === "available" || state === "assigned" ? "" : ` (${state})`}
              </option>
            ))}
        </select>
      </label>
      <Action onClick={swap} disabled={chosen === ""}>
        Swap
      </Action>
      {slot.model_origin === "swap" && <Action onClick={reset}>Back to the manifest's model</Action>}
    </>
  );
}
