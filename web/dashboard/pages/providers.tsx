import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { UpstreamRow } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { Pill } from "../../shared/pill.tsx";
import { resources, trafficChanges } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";

interface Check {
  readonly ok: boolean;
  readonly milliseconds: number;
  readonly models: number | null;
  readonly problem: string | null;
}

export function ProvidersPage(): JSX.Element {
  const [providers, again] = useLoaded(
    () => list<UpstreamRow>("/api/upstreams"),
    [resources.value, trafficChanges.value],
  );
  return (
    <>
      <PageHead title="Providers" context="Models of other services, served beside those of this machine." />
      <Show of={providers}>
        {(all) =>
          all.length === 0 ? (
            <p class="empty">
              None is declared. A manifest such as upstreams/acme.yaml in the configuration directory declares one.
            </p>
          ) : (
            <ul class="cards" aria-label="Providers">
              {all.map((each) => (
                <ProviderCard key={each.name} provider={each} onChange={again} />
              ))}
            </ul>
          )
        }
      </Show>
    </>
  );
}

const circuits = {
  closed: ["good", "Reachable"],
  open: ["bad", "Not asked: it has failed"],
  halfOpen: ["busy", "Tried again"],
} as const satisfies Record<UpstreamRow["circuit"], readonly ["good" | "bad" | "busy", string]>;

interface ProviderCardProps {
  readonly provider: UpstreamRow;
  readonly onChange: () => void;
}

function ProviderCard({ provider, onChange }: ProviderCardProps): JSX.Element {
  const [check, setCheck] = useState<Check>();
  const { name, spec } = provider;
  const [tone, word] = circuits[provider.circuit];
  return (
    <li class="card slot-card" aria-label={name}>
      <div class="slot-head">
        <h2>{name}</h2>
        {/* Without a valid manifest nothing is asked of it, so that its circuit says nothing. */}
        {spec === null ? <Pill tone="bad">Invalid manifest</Pill> : <Pill tone={tone}>{word}</Pill>}
      </div>
      <p class="quiet">{spec?.baseUrl ?? provider.file}</p>
      <p class="quiet number facts-line">
        <span>{provider.models === 1 ? "1 model" : `${provider.models} models`}</span>
        <span>
          {provider.in_flight} in flight, {provider.queued} queued
        </span>
      </p>
      {spec !== null && spec.models.length > 0 && (
        <p>
          {spec.models.slice(0, 12).map(({ ref }) => (
            <>
              <code key={ref} class="chip">
                {ref}
              </code>{" "}
            </>
          ))}
          {spec.models.length > 12 && `and ${spec.models.length - 12} more`}
        </p>
      )}
      {provider.problem !== null && <p class="concern bad">{provider.problem}</p>}
      {check !== undefined && (
        <p role="status" class={check.ok ? "good" : "bad"}>
          {check.ok
            ? `answers in ${check.milliseconds} ms${check.models === null ? "" : `, ${check.models} models`}`
            : check.problem}
        </p>
      )}
      <div class="row">
        <Action
          label={`Check ${name}`}
          disabled={spec === null}
          onClick={async () =>
            setCheck(await call<Check>(`/api/upstreams/${encodeURIComponent(name)}/check`, { method: "POST" }))
          }
          onDone={onChange}
        >
          Check
        </Action>
      </div>
    </li>
  );
}
