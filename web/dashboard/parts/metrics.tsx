import type { ComponentChildren, JSX } from "preact";
import { shortTime } from "../../shared/format.ts";
import { history } from "../history.ts";
import { figureOf, firstToken, firstTokens } from "../traffic-steps.ts";
import { slots } from "../live.ts";
import { Spark } from "./spark.tsx";

/** Steps of five seconds over which a present rate is taken. */
const recent = 3;
const stepSeconds = 5;

/** Four figures of the last fifteen minutes, each with its line. */
export function Metrics(): JSX.Element {
  const view = history.value;
  const all = [...slots.value.values()];
  const answering = all.reduce((sum, slot) => sum + slot.in_flight, 0);
  const waiting = all.reduce((sum, slot) => sum + slot.queued + slot.held, 0);
  const tokens = figureOf(view, "tokens_out").map((count) => count / stepSeconds);
  const rate = tokens.slice(-recent).reduce((sum, each) => sum + each, 0) / recent;
  const [p50, p95] = [firstToken(view, "p50"), firstToken(view, "p95")];
  const [requests, errors] = [figureOf(view, "requests"), figureOf(view, "errors")];
  const [asked, failed] = [sum(requests), sum(errors)];
  return (
    <dl class="metrics" aria-label="Figures at a glance">
      <Metric
        name="In flight"
        window="now"
        value={String(answering)}
        aside={waiting > 0 ? `+ ${waiting} waiting` : ""}
        line={figureOf(view, "in_flight")}
      />
      <Metric name="Tokens/s" window="now" value={rate.toFixed(rate > 0 && rate < 10 ? 1 : 0)} line={tokens} />
      <Metric
        name="First token"
        window="in 15 min"
        value={p50 === null ? "–" : shortTime(p50)}
        aside={p95 === null ? "no streamed answer" : `95 % within ${shortTime(p95)}`}
        line={firstTokens(view, "p50")}
      />
      <Metric
        name="Errors"
        window="in 15 min"
        value={failed === 0 ? "0" : <FailedRequests count={failed} />}
        aside={asked === 0 ? "no request" : `of ${asked} requests`}
        line={errors}
        isBad={failed > 0}
      />
    </dl>
  );
}

interface MetricProps {
  readonly name: string;
  /** The time that the figure is of. */
  readonly window: "now" | "in 15 min";
  readonly value: ComponentChildren;
  readonly aside?: string;
  readonly line: readonly (number | null)[];
  readonly isBad?: boolean;
}

function Metric({ name, window, value, aside = "", line, isBad = false }: MetricProps): JSX.Element {
  return (
    <div class="card metric">
      <dt>
        {name} {window}
      </dt>
      <dd>
        <span class={isBad ? "value bad" : "value"}>{value}</span> <span class="quiet">{aside}</span>
      </dd>
      <Spark values={line} />
    </div>
  );
}

function FailedRequests({ count }: { readonly count: number }): JSX.Element {
  return (
    <a href="ui/requests?outcome=failed" aria-label={`${count} failed ${count === 1 ? "request" : "requests"}`}>
      {count}
    </a>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((all, each) => all + each, 0);
}
