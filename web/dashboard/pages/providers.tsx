import { Plus } from "lucide";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AnswerTo } from "../../../src/api/management/call.ts";
import type { UpstreamRow } from "../../../src/api/management/views.ts";
import { call, list } from "../../shared/api.ts";
import { Drawer } from "../../shared/drawer.tsx";
import { Icon } from "../../shared/icon.tsx";
import { Menu } from "../../shared/menu.tsx";
import { Pill } from "../../shared/pill.tsx";
import { acting } from "../../shared/toast.tsx";
import { focusHeading } from "../focus.ts";
import { upstreamChanges } from "../live.ts";
import { Action } from "../parts/action.tsx";
import { ask } from "../parts/ask.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { ProviderForm } from "../parts/provider-form.tsx";

type Check = AnswerTo<"POST /api/upstreams/{name}/check">;

/** More names than a card should have. */
const mostNames = 12;

export function ProvidersPage(): JSX.Element {
  const [providers, again] = useLoaded(() => list("GET /api/upstreams"), [upstreamChanges.value]);
  const [isAdding, setAdding] = useState(false);
  /** The form of the first provider stays until it is sent, although another person adds one meanwhile. */
  const [isBegun, setBegun] = useState(false);
  const known = providers.state === "loading" ? [] : (providers.value ?? []);
  const names = useModelNames(known);
  return (
    <>
      <PageHead title="Providers" context="Models of other services, served beside those of this machine.">
        {known.length > 0 && !isBegun && (
          <button type="button" class="main" onClick={() => setAdding(true)}>
            <Icon of={Plus} />
            Add provider
          </button>
        )}
      </PageHead>
      {isAdding && (
        <Drawer title="Add provider" isDialog onClose={() => setAdding(false)}>
          <ProviderForm
            isAsked
            onDone={() => {
              setAdding(false);
              again();
            }}
          />
        </Drawer>
      )}
      <Show of={providers}>
        {(all) => (
          <>
            {(all.length === 0 || isBegun) && (
              <section class="card form-card" aria-label="Add provider" onInput={() => setBegun(true)}>
                <h2>{all.length === 0 ? "Add the first one" : "Add provider"}</h2>
                <p class="quiet">
                  Any service that speaks OpenAI's API: another Berth, a server in your network, or one that you pay
                  for. Its key stays where it is: the manifest names only the place.
                </p>
                <ProviderForm
                  onDone={() => {
                    setBegun(false);
                    again();
                  }}
                />
              </section>
            )}
            {all.length > 0 && (
              <ul class="cards" aria-label="Providers">
                {all.map((each) => (
                  <ProviderCard key={each.name} provider={each} models={names.get(each.name) ?? []} onChange={again} />
                ))}
              </ul>
            )}
          </>
        )}
      </Show>
    </>
  );
}

/** The names that clients use, by provider: also those that Berth has read from the provider's own list. */
function useModelNames(known: readonly UpstreamRow[]): ReadonlyMap<string, readonly string[]> {
  const counts = known.map(({ name, models }) => `${name} ${models}`).join();
  const [models] = useLoaded(async () => (counts === "" ? [] : await list("GET /v1/models")), [counts]);
  const all = models.state === "loading" ? [] : (models.value ?? []);
  const names = new Map<string, string[]>();
  for (const { id, berth } of all)
    names.set(String(berth["upstream"]), [...(names.get(String(berth["upstream"])) ?? []), id]);
  return names;
}

const circuits = {
  closed: ["good", "Reachable"],
  open: ["bad", "Not asked: it has failed"],
  halfOpen: ["busy", "Tried again"],
} as const satisfies Record<UpstreamRow["circuit"], readonly ["good" | "bad" | "busy", string]>;

interface ProviderCardProps {
  readonly provider: UpstreamRow;
  readonly models: readonly string[];
  readonly onChange: () => void;
}

function ProviderCard({ provider, models, onChange }: ProviderCardProps): JSX.Element {
  const [check, setCheck] = useState<Check>();
  const { name, spec } = provider;
  const names = [...new Set([...(spec?.models ?? []).map(({ ref }) => ref), ...models])];
  const [tone, word] = circuits[provider.circuit];
  const remove = async (): Promise<void> => {
    if (!(await ask({ text: `Remove the provider ${name}? Requests for its models are refused then.`, yes: "Remove" })))
      return;
    await acting(async () => {
      await call("DELETE /api/upstreams/{name}", { params: { name } });
      focusHeading();
      onChange();
    }, `${name} is removed.`);
  };
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
      {names.length > 0 && (
        <p class="chips" aria-label={`Models of ${name}`} role="group">
          {names.slice(0, mostNames).map((ref) => (
            <code key={ref} class="chip">
              {ref}
            </code>
          ))}
          {names.length > mostNames && <span class="quiet">and {names.length - mostNames} more</span>}
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
          onClick={async () => setCheck(await call("POST /api/upstreams/{name}/check", { params: { name } }))}
          onDone={onChange}
        >
          Check
        </Action>
        <span class="row actions">
          <Menu label={`More for ${name}`} items={[{ name: "Remove", isDanger: true, act: () => void remove() }]} />
        </span>
      </div>
    </li>
  );
}
