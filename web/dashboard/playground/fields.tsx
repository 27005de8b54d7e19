import type { JSX } from "preact";
import { useContext, useEffect } from "preact/hooks";
import type { SlotCapability } from "../../../src/api/names.ts";
import { modelStateText } from "../../shared/model-words.ts";
import { Show } from "../parts/load.tsx";
import { Served } from "./served.ts";

interface TextProps {
  readonly label: string;
  readonly value: string;
  readonly rows?: number;
  readonly onInput: (value: string) => void;
}

export function TextField({ label, value, rows, onInput }: TextProps): JSX.Element {
  return (
    <label>
      {label}
      {rows === undefined ? (
        <input value={value} required onInput={(event) => onInput(event.currentTarget.value)} />
      ) : (
        <textarea
          rows={rows}
          value={value}
          spellcheck={false}
          onInput={(event) => onInput(event.currentTarget.value)}
        />
      )}
    </label>
  );
}

interface ModelProps {
  readonly capability: SlotCapability;
  readonly value: string;
  readonly onChange: (model: string) => void;
}

/** The slots, models and providers' models that can do it; says what to do where there are none. */
export function ModelField({ capability, value, onChange }: ModelProps): JSX.Element {
  const models = useContext(Served);
  const capable =
    models.state === "loading"
      ? []
      : (models.value ?? []).filter(({ berth }) => berth.capabilities.some((each) => each === capability));
  const first = capable[0]?.id;
  // The choice of a person stays, although its slot may be away for a while.
  useEffect(() => {
    if (value === "" && first !== undefined) onChange(first);
  }, [value, first]);
  const isAway = value !== "" && !capable.some(({ id }) => id === value);
  return (
    <Show of={models}>
      {() =>
        first === undefined && !isAway ? (
          <p role="status">
            Nothing here can do this: no slot and no provider has the capability <code>{capability}</code>. Fetch a
            model for it on the page <a href="ui/models">Models</a>, or name a provider on the page{" "}
            <a href="ui/providers">Providers</a>.
          </p>
        ) : (
          <label>
            Model
            <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
              {isAway && <option value={value}>{value} · Not here now</option>}
              {capable.map((each) => (
                <option key={each.id} value={each.id}>
                  {each.id}
                  {modelStateText(each)}
                </option>
              ))}
            </select>
          </label>
        )
      }
    </Show>
  );
}
