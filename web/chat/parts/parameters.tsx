import type { JSX } from "preact";
import type { Parameters } from "../model.ts";
import { current } from "../store.ts";

export function ParameterForm(): JSX.Element {
  const { parameters } = current.value;
  const set = (change: Partial<Parameters>): void => {
    current.value = { ...current.value, parameters: { ...parameters, ...change } };
  };
  return (
    <details class="parameters">
      <summary>Parameters</summary>
      <label>
        System prompt
        <textarea rows={3} value={parameters.system} onInput={(event) => set({ system: event.currentTarget.value })} />
      </label>
      <label>
        Temperature{" "}
        <input
          type="number"
          min={0}
          max={2}
          step={0.1}
          placeholder="the engine's"
          value={parameters.temperature}
          onInput={(event) => set({ temperature: event.currentTarget.value })}
        />
      </label>
      <label>
        Longest answer, in tokens{" "}
        <input
          type="number"
          min={1}
          placeholder="the engine's"
          value={parameters.maxTokens}
          onInput={(event) => set({ maxTokens: event.currentTarget.value })}
        />
      </label>
    </details>
  );
}
