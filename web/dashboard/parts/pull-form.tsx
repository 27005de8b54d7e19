import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { verdictWords } from "../../../src/api/catalog-words.ts";
import type { ModelChoices } from "../../../src/api/management/model-choices-view.ts";
import { call } from "../../shared/api.ts";
import { bytes } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { Action } from "./action.tsx";
import { PullButton } from "./pull-button.tsx";

/** Pulls a model that a person names as they like; where several are meant, one of them is chosen. */
export function PullForm({ wanted }: { readonly wanted: string }): JSX.Element {
  const [text, setText] = useState(wanted);
  const [choices, setChoices] = useState<ModelChoices>();
  const asking = useRef<AbortController>(undefined);
  const look = async (): Promise<void> => {
    const { signal } = (asking.current = new AbortController());
    try {
      const found = await call("GET /api/models/hub", { query: { name: text.trim() }, signal });
      if (!signal.aborted) setChoices(found);
    } catch (error) {
      // The text is another one meanwhile, and a new question.
      if (!signal.aborted) throw error;
    }
  };
  return (
    <>
      <form class="row" onSubmit={(event) => event.preventDefault()}>
        <label class="grow">
          <span class="unseen">Model, repository or address</span>
          <input
            placeholder="qwen3:4b, owner/name, hf.co/owner/name:Q4_K_M, or the address of a page"
            value={text}
            onInput={(event) => {
              setText(event.currentTarget.value);
              setChoices(undefined);
              asking.current?.abort();
            }}
          />
        </label>
        <Action isMain isAtOnce={wanted !== ""} disabled={text.trim() === ""} onClick={look}>
          Find
        </Action>
      </form>
      {choices !== undefined && <Choices choices={choices} />}
    </>
  );
}

function Choices({ choices }: { readonly choices: ModelChoices }): JSX.Element {
  if (choices.data.length === 0) return <p role="status">There is nothing to pull under that name.</p>;
  return (
    <div class="wide">
      <table aria-label="Models of that name">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Quantisation</th>
            <th scope="col" class="figure">
              Size
            </th>
            <th scope="col">Fit</th>
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {choices.data.map(({ name, quantization, size_bytes: size, is_projector: isProjector, fit }) => {
            const { tone, text } = verdictWords(fit?.verdict ?? "unknown");
            return (
              <tr key={name}>
                <td>{name}</td>
                <td data-label="Quantisation">{isProjector ? "a projector, for pictures" : (quantization ?? "–")}</td>
                <td class="figure" data-label="Size">
                  {bytes(size)}
                </td>
                <td title={fit?.message}>{!isProjector && <Pill tone={tone}>{text}</Pill>}</td>
                <td>
                  <PullButton label={`Pull ${name}`} of={name} body={{ model: name }} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {choices.left_out > 0 && (
        <p class="quiet">
          and {choices.left_out} more in {choices.repository}
        </p>
      )}
    </div>
  );
}
