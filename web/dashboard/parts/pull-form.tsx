import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { PullButton } from "./pull-button.tsx";

/** Pulls a model from an address that a person types or pastes. */
export function PullForm(): JSX.Element {
  const [source, setSource] = useState("");
  return (
    <form class="row" onSubmit={(event) => event.preventDefault()}>
      <label class="grow">
        <span class="unseen">Address</span>
        <input
          placeholder="hf://owner/repository/file.gguf or https://…"
          value={source}
          onInput={(event) => setSource(event.currentTarget.value)}
        />
      </label>
      <PullButton
        key={source}
        isMain
        of={source.trim().split("/").at(-1) ?? ""}
        disabled={source.trim() === ""}
        body={{ source: source.trim() }}
        onDone={() => setSource("")}
      />
    </form>
  );
}
