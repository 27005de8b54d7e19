import type { JSX } from "preact";
import type { CatalogView } from "../../../src/api/management/views.ts";
import { bytes } from "../../shared/format.ts";
import { benchmarkText } from "./benchmark.ts";
import { capabilityWords } from "./capability-words.ts";
import { OutsideLink } from "./outside-link.tsx";
import { PullButton } from "./pull-button.tsx";

const verdicts = {
  fits: ["good", "fits"],
  fits_with: ["busy", "fits with other settings"],
  does_not_fit: ["bad", "does not fit"],
  unknown: ["quiet", "not known"],
} as const satisfies Record<CatalogView["fit"]["verdict"], readonly [string, string]>;

/** The curated models, with a verdict for this machine. */
export function Catalogue({ all }: { readonly all: readonly CatalogView[] }): JSX.Element {
  if (all.length === 0) return <p class="quiet">This Berth has no catalogue.</p>;
  return (
    <div class="wide">
      <table aria-label="Catalogue">
        <thead>
          <tr>
            <th scope="col">On this machine</th>
            <th scope="col">Model</th>
            <th scope="col">Size</th>
            <th scope="col">Can</th>
            <th scope="col">Licence</th>
            <th scope="col">
              <span class="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {all.map((model) => (
            <CatalogueRow key={model.id} model={model} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

const facts: Readonly<Record<string, string>> = {
  source: "address",
  aboutBytes: "size",
  license: "licence",
  licenseUrl: "address of the licence",
  shape: "memory of its context",
};

/** A fact of the catalogue in the words of this page. A newer server may know others. */
function wordOf(fact: string): string {
  return Object.hasOwn(facts, fact) ? (facts[fact] ?? fact) : fact;
}

function CatalogueRow({ model }: { readonly model: CatalogView }): JSX.Element {
  const { verdict } = model.fit;
  // A newer server may know other verdicts: its own word then.
  const [tone, word] = Object.hasOwn(verdicts, verdict) ? verdicts[verdict] : ["quiet", verdict];
  const license = { name: model.license, url: model.license_url };
  return (
    <tr>
      <td>
        <strong class={tone}>{word}</strong>
        <div class="quiet">{model.fit.message}</div>
        {model.last_benchmark && <div class="quiet">{benchmarkText(model.last_benchmark)}</div>}
      </td>
      <td>
        {model.title} <code>{model.id}</code>
        {model.note !== null && <div class="quiet">{model.note}</div>}
        {model.unverified.length > 0 && (
          <div class="quiet">Not compared with the publisher's page: {model.unverified.map(wordOf).join(", ")}.</div>
        )}
      </td>
      <td class="figure">{bytes(model.size_bytes)}</td>
      <td>{capabilityWords(model.capabilities)}</td>
      <td>
        <OutsideLink href={model.license_url}>{model.license}</OutsideLink>
      </td>
      <td>
        {model.is_here ? (
          "is here"
        ) : (
          <PullButton
            label={`Pull ${model.id}`}
            of={model.id}
            body={{ model: model.id }}
            license={model.must_accept ? license : undefined}
          />
        )}
      </td>
    </tr>
  );
}
