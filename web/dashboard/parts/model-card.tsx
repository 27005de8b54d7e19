import type { JSX } from "preact";
import type { ModelView } from "../../../src/api/management/views.ts";
import { call } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { focusHeading } from "../focus.ts";
import { parametersText } from "../model-kinds.ts";
import { slotPath } from "../router.ts";
import { Action } from "./action.tsx";
import { benchmarkText } from "./benchmark.ts";
import { capabilityWords } from "./capability-words.ts";
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
        <Action
          label={`Remove ${id}`}
          confirm={`Remove ${id} and its files?`}
          disabled={model.slots.length > 0}
          onClick={() => call(`/api/models/${encodeURIComponent(id)}?files=1`, { method: "DELETE" })}
          onDone={() => {
            focusHeading();
            onChange();
          }}
        >
          Remove
        </Action>
      </div>
    </li>
  );
}
