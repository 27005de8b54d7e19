import { SlidersHorizontal } from "lucide";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Drawer } from "../../shared/drawer.tsx";
import { Icon } from "../../shared/icon.tsx";
import { faultOf, noParameters, type Parameters } from "../model.ts";
import { change, choose, current, shown } from "../store.ts";

/** Opens the parameters of the conversation, and says that they are not the engine's own. */
export function ParameterButton(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const { id, messages, parameters } = current.value;
  const before = useRef(parameters);
  const open = (): void => {
    before.current = parameters;
    setOpen(true);
  };
  const close = (): void => {
    setOpen(false);
    // A new chat is kept with its first question.
    if (messages.length > 0 && parameters !== before.current) void shown(() => change(id, { parameters }));
  };
  const isChanged = Object.entries(noParameters).some(([name, none]) => parameters[keyOf(name)] !== none);
  return (
    <span class="row">
      {isChanged && <span class="chip">changed</span>}
      <button type="button" class="ghost" onClick={open}>
        <Icon of={SlidersHorizontal} />
        <span class="wide-only">Parameters</span>
      </button>
      {isOpen && (
        <Drawer title="Parameters" onClose={close}>
          <Form />
        </Drawer>
      )}
    </span>
  );
}

function keyOf(name: string): keyof Parameters {
  return name === "system" || name === "temperature" ? name : "maxTokens";
}

function Form(): JSX.Element {
  const { parameters } = current.value;
  const set = (parameters: Partial<Parameters>): void => choose({ parameters });
  return (
    <div class="parameters">
      <label>
        System prompt
        <textarea rows={6} value={parameters.system} onInput={(event) => set({ system: event.currentTarget.value })} />
      </label>
      <NumberField name="temperature" label="Temperature" limits={{ min: 0, max: 2, step: 0.1 }} />
      <NumberField name="maxTokens" label="Longest answer, in tokens" limits={{ min: 1, step: 1 }} />
      <button type="button" onClick={() => set(noParameters)}>
        As the engine has them
      </button>
    </div>
  );
}

interface NumberFieldProps {
  readonly name: "temperature" | "maxTokens";
  readonly label: string;
  readonly limits: { readonly min: number; readonly max?: number; readonly step: number };
}

function NumberField({ name, label, limits }: NumberFieldProps): JSX.Element {
  const value = current.value.parameters[name];
  const fault = faultOf(name, value);
  return (
    <>
      <label>
        {label}{" "}
        <input
          type="number"
          {...limits}
          placeholder="the engine's"
          value={value}
          aria-invalid={fault !== undefined}
          aria-describedby={fault === undefined ? undefined : `fault-${name}`}
          onInput={(event) => choose({ parameters: { [name]: event.currentTarget.value } })}
        />
      </label>
      {fault !== undefined && (
        <p role="alert" id={`fault-${name}`}>
          {fault}
        </p>
      )}
    </>
  );
}
