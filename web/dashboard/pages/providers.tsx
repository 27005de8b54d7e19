import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { UpstreamRow } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { resources } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";

interface Check {
  readonly ok: boolean;
  readonly milliseconds: number;
  readonly models: number | null;
  readonly problem: string | null;
}

/** Milliseconds between two readings: requests and circuits are no events. */
const restMs = 3000;

export function ProvidersPage(): JSX.Element {
  const [providers, again] = useLoaded(() => list<UpstreamRow>("/api/upstreams"), [resources.value], restMs);
  return (
    <>
      <PageHead title="Providers" context="Models of other services, served beside those of this machine." />
      <Show of={providers}>
        {(all) =>
          all.length === 0 ? (
            <p>
              None is declared. A manifest such as <code>upstreams/acme.yaml</code> in the configuration directory
              declares one: docs/upstreams.md has an example.
            </p>
          ) : (
            <div class="wide">
              <table aria-label="Providers">
                <thead>
                  <tr>
                    <th scope="col">Name</th>
                    <th scope="col">Address</th>
                    <th scope="col">Circuit</th>
                    <th scope="col">Requests</th>
                    <th scope="col">Models</th>
                    <th scope="col">Says</th>
                    <th scope="col">
                      <span class="unseen">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {all.map((each) => (
                    <Row key={each.name} provider={each} onChange={again} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Show>
    </>
  );
}

function Row({ provider, onChange }: { readonly provider: UpstreamRow; readonly onChange: () => void }): JSX.Element {
  const [check, setCheck] = useState<Check>();
  const at = `/api/upstreams/${encodeURIComponent(provider.name)}`;
  return (
    <tr>
      <td>{provider.name}</td>
      <td>{provider.spec?.baseUrl ?? "–"}</td>
      {/* Without a valid manifest nothing is asked of it, so that its circuit says nothing. */}
      {provider.spec === null ? (
        <td>–</td>
      ) : (
        <td class={provider.circuit === "closed" ? "good" : "bad"}>{provider.circuit}</td>
      )}
      <td class="figure">
        {provider.in_flight} in flight, {provider.queued} queued
      </td>
      <td class="figure">{provider.models}</td>
      <td>
        {provider.problem}
        {check !== undefined && (
          <div role="status" class={check.ok ? "good" : "bad"}>
            {check.ok
              ? `answers in ${check.milliseconds} ms${check.models === null ? "" : `, ${check.models} models`}`
              : check.problem}
          </div>
        )}
      </td>
      <td>
        <Action
          label={`Check ${provider.name}`}
          disabled={provider.spec === null}
          onClick={async () => setCheck(await call<Check>(`${at}/check`, { method: "POST" }))}
          onDone={onChange}
        >
          Check
        </Action>
      </td>
    </tr>
  );
}
