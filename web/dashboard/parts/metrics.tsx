import type { JSX } from "preact";
import { shortTime } from "../../shared/format.ts";
import { history } from "../history.ts";
import { figureOf, firstTokens } from "../traffic-steps.ts";
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
  const [p50, p95] = [firstTokens(view, "p50"), firstTokens(view, "p95")];
  const [requests, errors] = [figureOf(view, "requests"), figureOf(view, "errors")];
  const [asked, failed] = [sum(requests), sum(errors)];
  return (
    <dl class="metrics" aria-label="Figures at a glance">
      <Metric
        name="Answering"
        value={String(answering)}
        aside={waiting > 0 ? `+ ${waiting} waiting` : ""}
        line={figureOf(view, "in_flight")}
      />
      <Metric name="Tokens/s" value={rate.toFixed(rate > 0 && rate < 10 ? 1 : 0)} aside="" line={tokens} />
      <Metric
        name="First token"
        value={middle(p50) === undefined ? "–" : shortTime(middle(p50) ?? 0)}
        aside={middle(p50) === undefined ? "no stream yet" : `95 %: ${shortTime(Math.max(...known(p95)))}`}
        line={p50.map((each) => each ?? 0)}
      />
      <Metric
        name="Errors in 15 min"
        value={String(failed)}
        aside={asked === 0 ? "no request yet" : `of ${asked} requests`}
        line={errors}
        isBad={failed > 0}
      />
    </dl>
  );
}

interface MetricProps {
  readonly name: string;
  readonly value: string;
  readonly aside: string;
  readonly line: readonly number[];
  readonly isBad?: boolean;
}

function Metric({ name, value, aside, line, isBad = false }: MetricProps): JSX.Element {
  return (
    <div class="card metric">
      <dt>{name}</dt>
      <dd>
        <span class={isBad ? "value bad" : "value"}>{value}</span> <span class="quiet">{aside}</span>
      </dd>
      <Spark values={line} />
    </div>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((all, each) => all + each, 0);
}

function known(values: readonly (number | null)[]): readonly number[] {
  return values.flatMap((each) => each ?? []);
}

/** The median of what is known. */
function middle(values: readonly (number | null)[]): number | undefined {
  const sorted = known(values).toSorted((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}
