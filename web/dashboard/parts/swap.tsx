import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { ModelView, SlotView } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { modelChanges } from "../live.ts";
import { parametersText } from "../model-kinds.ts";
import { Action } from "./action.tsx";
import { useLoaded } from "./load.tsx";

interface SwapFormProps {
  readonly slot: SlotView;
  /** Beside the buttons. */
  readonly children: ComponentChildren;
}

/** The model of a slot; has it hold another one, or its manifest's own again. */
export function SwapForm({ slot, children }: SwapFormProps): JSX.Element {
  const [models] = useLoaded(() => list("GET /api/models"), [modelChanges.value]);
  const [chosen, setChosen] = useState("");
  const known = models.state === "here" ? models.value : [];
  const params = { name: slot.name };
  const swap = (): Promise<unknown> => call("POST /api/slots/{name}/swap", { params, body: { model: chosen } });
  const reset = (): Promise<unknown> => call("POST /api/slots/{name}/swap", { params, body: { reset: true } });
  const held = known.find(({ id }) => id === slot.model);
  return (
    <>
      <p>
        {slot.model ?? (slot.engine === "custom" ? "Its own command." : "None yet.")}{" "}
        {held !== undefined && <span class="quiet">{factsOf(held)}</span>}
      </p>
      <div class="row">
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
        {children}
      </div>
    </>
  );
}

function factsOf({ parameters, quantization, size_bytes: size, context_length: context }: ModelView): string {
  const facts = [
    parameters === null ? "" : parametersText(parameters),
    quantization ?? "",
    bytes(size),
    context === null ? "" : `trained for ${Math.round(context / 1024)}k tokens`,
  ];
  return facts.filter((fact) => fact !== "").join(" · ");
}
