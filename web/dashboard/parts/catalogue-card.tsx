import type { JSX } from "preact";
import type { CatalogView } from "../../../src/api/management/views.ts";
import { bytes } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { benchmarkText } from "./benchmark.ts";
import { capabilityWords } from "./capability-words.ts";
import { FitMeter } from "./fit-meter.tsx";
import { OutsideLink } from "./outside-link.tsx";
import { PullButton } from "./pull-button.tsx";

const verdicts = {
  fits: ["good", "Fits"],
  fits_with: ["busy", "Fits with other settings"],
  does_not_fit: ["bad", "Does not fit"],
  unknown: ["off", "Not known"],
} as const satisfies Record<CatalogView["fit"]["verdict"], readonly ["good" | "busy" | "bad" | "off", string]>;

interface CatalogueCardProps {
  readonly model: CatalogView;
  /** Called once the server pulls the model. */
  readonly onPull?: () => void;
}

/** A curated model, with a verdict for this machine. */
export function CatalogueCard({ model, onPull }: CatalogueCardProps): JSX.Element {
  const { fit } = model;
  // A newer server may know other verdicts: its own word then.
  const [tone, word] = Object.hasOwn(verdicts, fit.verdict) ? verdicts[fit.verdict] : (["off", fit.verdict] as const);
  return (
    <li class="card slot-card" aria-label={model.title}>
      <div class="slot-head">
        <h3>
          {model.title} <code class="quiet">{model.id}</code>
        </h3>
        <Pill tone={tone}>{word}</Pill>
      </div>
      <p class="quiet">
        {bytes(model.size_bytes)} · {capabilityWords(model.capabilities)} ·{" "}
        <OutsideLink href={model.license_url}>{model.license}</OutsideLink>
      </p>
      <FitMeter need={fit.need_bytes} budget={fit.budget_bytes} />
      <details>
        <summary>Why</summary>
        <p>{fit.message}</p>
        {model.note !== null && <p>{model.note}</p>}
        {model.last_benchmark && <p>{benchmarkText(model.last_benchmark)}</p>}
        {model.unverified.length > 0 && (
          <p class="quiet">Not compared with the publisher's page: {model.unverified.map(wordOf).join(", ")}.</p>
        )}
      </details>
      <div class="row">
        {model.is_here ? (
          <span class="quiet">is here</span>
        ) : (
          <PullButton
            label={`Pull ${model.id}`}
            of={model.id}
            body={{ model: model.id }}
            license={model.must_accept ? { name: model.license, url: model.license_url } : undefined}
            {...(onPull === undefined ? {} : { onDone: onPull })}
          />
        )}
      </div>
    </li>
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
