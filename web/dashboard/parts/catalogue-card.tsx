import type { JSX } from "preact";
import { factWords, verdictWords } from "../../../src/api/catalog-words.ts";
import type { CatalogView } from "../../../src/api/management/views.ts";
import { bytes } from "../../shared/format.ts";
import { Pill } from "../../shared/pill.tsx";
import { pulls } from "../live.ts";
import { benchmarkText } from "./benchmark.ts";
import { capabilityWords } from "./capability-words.ts";
import { FitMeter } from "./fit-meter.tsx";
import { OutsideLink } from "./outside-link.tsx";
import { PullButton } from "./pull-button.tsx";

interface CatalogueCardProps {
  readonly model: CatalogView;
  /** Called once the server pulls the model. */
  readonly onPull?: () => void;
}

/** A curated model, with a verdict for this machine. */
export function CatalogueCard({ model, onPull }: CatalogueCardProps): JSX.Element {
  const { fit } = model;
  const { tone, text } = verdictWords(fit.verdict);
  const isPulled = [...pulls.value.values()].some(
    (pull) => pull.model === model.id && ["queued", "running", "paused"].includes(pull.state),
  );
  return (
    <li class="card slot-card" aria-label={model.title}>
      <div class="slot-head">
        <h3>
          {model.title} <code class="quiet">{model.id}</code>
        </h3>
        <Pill tone={tone}>{text}</Pill>
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
          <p class="quiet">Not compared with the publisher's page: {factWords(model.unverified)}.</p>
        )}
      </details>
      <div class="row">
        {model.is_here ? (
          <span class="quiet">is here</span>
        ) : isPulled ? (
          <span class="quiet">is being pulled</span>
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
