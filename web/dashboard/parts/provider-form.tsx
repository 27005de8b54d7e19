import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../../shared/api.ts";
import { isWhole, providerBody, type NewProvider } from "../new-provider.ts";
import { Action } from "./action.tsx";

const nothing: NewProvider = { name: "", baseUrl: "", key: "none", keyAt: "", models: "" };
const keys = {
  none: "none is needed",
  env: "in a variable of the gateway",
  file: "in a file of this machine",
} as const satisfies Record<NewProvider["key"], string>;

interface ProviderFormProps {
  /** A person has asked for the form: its first field gets the focus. */
  readonly isAsked?: boolean;
  readonly onDone: () => void;
}

/** Declares a provider of models: the server writes its manifest. */
export function ProviderForm({ isAsked = false, onDone }: ProviderFormProps): JSX.Element {
  const [provider, setProvider] = useState(nothing);
  const set = (change: Partial<NewProvider>): void => setProvider({ ...provider, ...change });
  const { name, baseUrl, key, keyAt, models } = provider;
  const add = (): Promise<unknown> =>
    call("PUT /api/upstreams/{name}", { params: { name }, body: providerBody(provider) });
  return (
    <form class="fields" onSubmit={(event) => event.preventDefault()}>
      <label>
        Name
        <input
          autofocus={isAsked}
          value={name}
          maxLength={63}
          placeholder="acme"
          onInput={(event) => set({ name: event.currentTarget.value.trim() })}
        />
      </label>
      <label>
        Base URL
        <input
          type="url"
          value={baseUrl}
          placeholder="https://api.example.com/v1"
          onInput={(event) => set({ baseUrl: event.currentTarget.value.trim() })}
        />
      </label>
      <label>
        Its key
        <select
          value={key}
          onChange={({ currentTarget: { value } }) =>
            set({ key: value === "env" || value === "file" ? value : "none" })
          }
        >
          {Object.entries(keys).map(([each, words]) => (
            <option key={each} value={each}>
              {words}
            </option>
          ))}
        </select>
      </label>
      {key !== "none" && (
        <label>
          {key === "env" ? "Name of the variable" : "Path of the file"}
          <input
            value={keyAt}
            placeholder={key === "env" ? "ACME_API_KEY" : "/run/secrets/acme"}
            onInput={(event) => set({ keyAt: event.currentTarget.value.trim() })}
          />
        </label>
      )}
      <label>
        Models
        <input
          value={models}
          placeholder="all that it lists"
          onInput={(event) => set({ models: event.currentTarget.value })}
        />
      </label>
      <div class="row">
        <Action isMain disabled={!isWhole(provider)} onClick={add} onDone={onDone}>
          Add provider
        </Action>
      </div>
    </form>
  );
}
