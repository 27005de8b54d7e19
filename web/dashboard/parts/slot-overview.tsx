import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { base } from "../../shared/api.ts";
import { CopyButton } from "../../shared/copy-button.tsx";
import { linesFor } from "../client-lines.ts";
import { EnginePageLink } from "./engine-page.tsx";
import { StateBand } from "./state-band.tsx";
import { SwapForm } from "./swap.tsx";
import { TrafficChart } from "./traffic-chart.tsx";

/** How a slot does now, and how clients reach it. */
export function SlotOverview({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  const isFailed = slot.state === "error";
  const model = (
    <section key="model" class="card" aria-label="Model">
      <h2>Model</h2>
      <SwapForm slot={slot}>
        <EnginePageLink slot={slot.name} />
      </SwapForm>
    </section>
  );
  return (
    <div class="stack">
      {/* A failed slot may need another model, and has no traffic. */}
      {isFailed && model}
      <section class="card" aria-label="Traffic">
        <TrafficChart detail={slot} />
      </section>
      <Connect slot={slot} />
      <section class="card" aria-label="The last hour">
        <h2>The last hour</h2>
        <StateBand slot={slot} />
      </section>
      {!isFailed && model}
    </div>
  );
}

function Connect({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  const [client, setClient] = useState("curl");
  const all = linesFor(slot, new URL("v1", base).href);
  const shown = all.find(({ name }) => name === client) ?? all[0];
  return (
    <section class="card" aria-label="Connect a client">
      <div class="chart-head">
        <h2>Connect</h2>
        <span class="segmented" role="group" aria-label="Client">
          {all.map(({ name }) => (
            <button key={name} type="button" aria-pressed={name === shown?.name} onClick={() => setClient(name)}>
              {name}
            </button>
          ))}
        </span>
      </div>
      {shown !== undefined && (
        <div class="code">
          <CopyButton text={shown.text} label={`Copy the lines for ${shown.name}`} />
          <pre>{shown.text}</pre>
        </div>
      )}
    </section>
  );
}
