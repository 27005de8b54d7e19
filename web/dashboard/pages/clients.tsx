import type { JSX } from "preact";
import { base, token } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import { linesFor } from "../client-lines.ts";
import { slots } from "../live.ts";

/** The lines that bring a client to this Berth. */
export function Clients(): JSX.Element {
  const v1 = new URL("v1", base).href;
  const chat = [...slots.value.values()].find(({ capabilities }) => capabilities.some((each) => each === "chat"));
  const slot = chat ?? { name: "primary", capabilities: ["chat"] as const };
  return (
    <div class="stack">
      <section class="card" aria-label="Address">
        <h2>Address</h2>
        <p>Every client of OpenAI's API works: give it this address as its base URL, and a slot's name as the model.</p>
        <p class="row">
          <code>{v1}</code>
          <CopyButton text={v1} label="Copy the address" />
        </p>
        {token.value !== undefined && (
          <p>
            Each client needs a token as its API key. <a href="ui/settings/tokens">Tokens</a> makes one;{" "}
            <code>export BERTH_TOKEN=svc_…</code> gives it to curl and programs.
          </p>
        )}
      </section>
      {linesFor(slot, v1).map(({ name, text }) => (
        <section key={name} class="card" aria-label={name}>
          <h2>{name}</h2>
          <div class="code">
            <CopyButton text={text} label={`Copy the lines for ${name}`} />
            <pre>{text}</pre>
          </div>
        </section>
      ))}
    </div>
  );
}
