import type { JSX } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { V1Model } from "../../../src/api/management/v1-model.ts";
import type { SlotCapability } from "../../../src/api/names.ts";
import { wordsOf } from "../../shared/model-words.ts";
import { Show, type Loaded } from "../parts/load.tsx";
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

interface JsonProps extends TextProps {
  readonly rows: number;
  /** How to correct the text; its form sends nothing until then. */
  readonly error: string | undefined;
  readonly placeholder?: string;
}

export function JsonField({ label, value, rows, error, placeholder, onInput }: JsonProps): JSX.Element {
  const field = useRef<HTMLTextAreaElement>(null);
  // Told once the field is left: half of a text is no fault yet.
  const [isLeft, setIsLeft] = useState(false);
  const id = useId();
  const told = isLeft ? error : undefined;
  useLayoutEffect(() => field.current?.setCustomValidity(error ?? ""), [error]);
  return (
    <>
      <label>
        {label}
        <textarea
          ref={field}
          class="mono"
          rows={rows}
          value={value}
          spellcheck={false}
          placeholder={placeholder}
          aria-invalid={told !== undefined}
          aria-describedby={told === undefined ? undefined : id}
          onInput={(event) => onInput(event.currentTarget.value)}
          onBlur={() => setIsLeft(true)}
          onInvalid={(event) => {
            // Told in the page, not in a bubble that goes away.
            event.preventDefault();
            setIsLeft(true);
            event.currentTarget.focus();
          }}
        />
      </label>
      {told !== undefined && (
        <p role="alert" id={id}>
          {told}
        </p>
      )}
    </>
  );
}

interface ModelProps {
  readonly capability: SlotCapability;
  readonly value: string;
  readonly onChange: (model: string) => void;
}

/** The models that a request of that capability may name. */
function capableOf(models: Loaded<readonly V1Model[]>, capability: SlotCapability): readonly V1Model[] {
  const known = models.state === "loading" ? [] : (models.value ?? []);
  return known.filter(({ berth }) => berth.capabilities.some((each) => each === capability));
}

/** The slots, models and providers' models that can do it; says what to do where there are none. */
export function ModelField({ capability, value, onChange }: ModelProps): JSX.Element {
  const models = useContext(Served);
  const capable = capableOf(models, capability);
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
              {capable.map(optionOf)}
            </select>
          </label>
        )
      }
    </Show>
  );
}

function optionOf(model: V1Model): JSX.Element {
  return (
    <option key={model.id} value={model.id}>
      {[model.id, wordsOf(model)?.text].filter(Boolean).join(" · ")}
    </option>
  );
}

/** A further model, which is asked the same; nothing where there is no other one. */
export function OtherModelField({
  capability,
  than,
  value,
  onChange,
}: ModelProps & { readonly than: string }): JSX.Element | null {
  const others = capableOf(useContext(Served), capability).filter(({ id }) => id !== than);
  if (others.length === 0 && value === "") return null;
  return (
    <label>
      Compare with
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">no other model</option>
        {value !== "" && !others.some(({ id }) => id === value) && <option value={value}>{value}</option>}
        {others.map(optionOf)}
      </select>
    </label>
  );
}
