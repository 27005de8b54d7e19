import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isFitting, verdictRank } from "../../../src/api/catalog-words.ts";
import { list } from "../../shared/api.ts";
import { modelChanges, slots } from "../live.ts";
import { CatalogueCard } from "../parts/catalogue-card.tsx";
import { Show, useLoaded } from "../parts/load.tsx";
import { ModelCard } from "../parts/model-card.tsx";
import { PageHead } from "../parts/page-head.tsx";
import { PullForm } from "../parts/pull-form.tsx";
import { PullStrip } from "../parts/pull-strip.tsx";
import { useQuery } from "../query.ts";
import { kindOf, kindWords, type Kind } from "../model-kinds.ts";

/** More models than a person looks at. */
const most = 200;

/** The models on this machine, those that would fit it, and how to fetch them. */
export function ModelsPage(): JSX.Element {
  const used = [...slots.value.values()].map(({ name, model }) => `${name} ${model}`).join();
  const [models, again] = useLoaded(() => list("GET /api/models"), [modelChanges.value, used]);
  const [catalog] = useLoaded(() => list("GET /api/models/catalog"), [modelChanges.value]);
  const [text, setText] = useState("");
  // The page of a slot that lacks its model leads here with the name.
  const [wanted] = useQuery("find");
  const [kind, setKind] = useState<Kind>();
  const [onlyFitting, setOnlyFitting] = useState(false);
  const matches = (name: string, capabilities: readonly string[]): boolean =>
    name.toLowerCase().includes(text.toLowerCase()) && (kind === undefined || kindOf(capabilities) === kind);
  return (
    <>
      <PageHead title="Models" context="What is on this machine, and what fits it." />
      <PullStrip />
      <div class="row filters">
        <label>
          <span class="unseen">Search</span>
          <input
            type="search"
            placeholder="Search models"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <span class="segmented" role="group" aria-label="Kind of model">
          <button type="button" aria-pressed={kind === undefined} onClick={() => setKind(undefined)}>
            All
          </button>
          {kindWords.map(([each, word]) => (
            <button key={each} type="button" aria-pressed={kind === each} onClick={() => setKind(each)}>
              {word}
            </button>
          ))}
        </span>
        <label>
          <input
            type="checkbox"
            checked={onlyFitting}
            onChange={(event) => setOnlyFitting(event.currentTarget.checked)}
          />{" "}
          Only what fits
        </label>
      </div>
      {wanted !== "" && <Find key={wanted} wanted={wanted} />}
      <h2>On this machine</h2>
      <Show of={models}>
        {(all) => {
          const found = all.filter(({ id, capabilities }) => matches(id, capabilities));
          if (all.length === 0)
            return <p class="empty">There is none yet. Pull one below: those that fit come first.</p>;
          return (
            <>
              <ul class="cards" aria-label="Models on this machine">
                {found.slice(0, most).map((model) => (
                  <ModelCard key={model.id} model={model} onChange={again} />
                ))}
              </ul>
              {found.length === 0 && <p class="quiet">None of them is what you look for.</p>}
              {found.length > most && (
                <p class="quiet">
                  and {found.length - most} more: <code>berth model list</code>
                </p>
              )}
            </>
          );
        }}
      </Show>
      {wanted === "" && <Find wanted="" />}
      <h2>Catalogue</h2>
      <Show of={catalog}>
        {(all) => {
          const found = all
            .filter(({ id, title, capabilities }) => matches(`${id} ${title}`, capabilities))
            .filter(({ fit }) => !onlyFitting || isFitting(fit.verdict))
            .toSorted((one, other) => verdictRank(one.fit.verdict) - verdictRank(other.fit.verdict));
          return (
            <>
              <ul class="cards" aria-label="Catalogue">
                {found.map((model) => (
                  <CatalogueCard key={model.id} model={model} />
                ))}
              </ul>
              {found.length === 0 && <p class="quiet">None of them is what you look for.</p>}
            </>
          );
        }}
      </Show>
    </>
  );
}

function Find({ wanted }: { readonly wanted: string }): JSX.Element {
  return (
    <>
      <h2>Find another one</h2>
      <PullForm wanted={wanted} />
    </>
  );
}
