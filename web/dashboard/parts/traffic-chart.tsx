import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { TrafficView } from "../../../src/api/management/traffic-view.ts";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { now } from "../../shared/clock.ts";
import { ago } from "../../shared/format.ts";
import { chartRows } from "../chart-rows.ts";
import { folded, lastMarks, marksOf } from "../marks.ts";
import { history } from "../history.ts";
import { figureOf, firstTokens, shownSteps } from "../traffic-steps.ts";
import { placesOf, providerColour, slotColour } from "../colours.ts";
import { slots } from "../live.ts";
import { byName } from "../slot-order.ts";
import { TimeChart, type ChartSeries } from "./time-chart.tsx";

const stepSeconds = 5;
/** Requests that named no slot; they have no tokens. */
const noSlot = "none";
/** Before the name of a provider, where the traffic has it beside slots. */
const upstream = "upstream ";
const isProvider = (name: string): boolean => name.startsWith(upstream);

const kinds = {
  tokens: { word: "Tokens/s", none: "No tokens", least: 10, textOf: (value: number) => String(Math.round(value)) },
  requests: {
    word: "Requests/s",
    none: "No request",
    least: 1,
    textOf: (value: number) => (value < 10 ? value.toFixed(1) : String(Math.round(value))),
  },
  latency: {
    word: "First token",
    none: "No streamed answer",
    least: 1,
    textOf: (value: number) => `${value.toFixed(1)} s`,
  },
} as const;
type Kind = keyof typeof kinds;

/** More marks than these are drawn, and not told in words. */
const toldMarks = 6;

/** The last fifteen minutes of one slot, or of all by slot. */
export function TrafficChart({ detail }: { readonly detail?: SlotDetail }): JSX.Element {
  const slot = detail?.name;
  const [kind, setKind] = useState<Kind>("tokens");
  const view = history.value;
  const endedAt = view === undefined ? now() : Date.parse(view.ended_at);
  // Slots change more often than the steps of the traffic, by which the chart is drawn anew.
  const times = useMemo(
    () => Array.from({ length: shownSteps }, (_, at) => endedAt / 1000 - (shownSteps - 1 - at) * stepSeconds),
    [endedAt],
  );
  const since = times[0] ?? 0;
  const marks = detail === undefined ? lastMarks([...slots.value.values()], since) : marksOf(detail, since);
  const told = folded(marks);
  const all = [...slots.value.keys()].join("\n");
  const series = useMemo(
    () => (slot === undefined ? seriesOf(kind, view) : [seriesOfSlot(kind, view, slot, placesOf(slots.peek().keys()))]),
    [kind, view, slot, all],
  );
  return (
    <>
      <div class="chart-head">
        <h2>The last 15 minutes{slot === undefined && " by slot"}</h2>
        <span class="segmented" role="group" aria-label="Shown figure">
          {Object.entries(kinds).map(([each, { word }]) => (
            <button
              key={each}
              type="button"
              aria-pressed={each === kind}
              onClick={() => setKind(each === "requests" || each === "latency" ? each : "tokens")}
            >
              {word}
            </button>
          ))}
        </span>
      </div>
      {series.length === 0 ? (
        <p class="empty">{kinds[kind].none} in the last fifteen minutes.</p>
      ) : (
        <TimeChart
          key={kind}
          summary={`${summaryOf(kind, series)}${told
            .slice(0, toldMarks)
            .map((mark) => `; ${markText(mark)}`)
            .join("")}`}
          times={times}
          series={series}
          isStacked={kind !== "latency"}
          textOf={kinds[kind].textOf}
          least={kinds[kind].least}
          marks={marks}
        />
      )}
      {marks.length > 0 && (
        <ul class="legend marks" aria-label="Loads, restarts and failures">
          {told.slice(0, toldMarks).map((mark) => (
            <li key={`${mark.slot}${mark.what}${mark.at}`} class={mark.what}>
              {markText(mark)}
            </li>
          ))}
          {told.length > toldMarks && <li class="quiet">and {told.length - toldMarks} more</li>}
        </ul>
      )}
      {series.length > 0 && (
        <ChartTable label={kinds[kind].word} times={times} series={series} textOf={kinds[kind].textOf} />
      )}
    </>
  );
}

function markText({ at, slot, what, times }: ReturnType<typeof folded>[number]): string {
  const often = times === 1 ? "" : ` ${times} times, the last`;
  return `${slot} ${what}${often} ${ago(new Date(at * 1000).toISOString(), now())}`;
}

interface ChartTableProps {
  readonly label: string;
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly textOf: (value: number) => string;
}

/** The same figures to be read, by the minute. */
function ChartTable({ label, times, series, textOf }: ChartTableProps): JSX.Element {
  const [isShown, setShown] = useState(false);
  return (
    <>
      <button type="button" class="link as-table" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
        {isShown ? "Hide the table" : "Show as a table"}
      </button>
      {isShown && (
        <div class="wide">
          <table aria-label={`${label} by the minute`}>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {series.map(({ name }) => (
                  <th key={name} scope="col" class="figure">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {chartRows(times, series).map(({ at, values }) => (
                <tr key={at}>
                  <th scope="row">
                    {new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}
                  </th>
                  {values.map((value, nth) => (
                    <td key={nth} class="figure">
                      {value === null ? "–" : textOf(value)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** A series for each slot and provider that has something to show. */
function seriesOf(kind: Kind, view: TrafficView | undefined): readonly ChartSeries[] {
  const places = placesOf(slots.peek().keys());
  const names = (view?.series ?? []).map((series) => series.slot).toSorted((one, other) => byName.compare(one, other));
  const providers = names.filter(isProvider);
  const all = names.map((name) =>
    isProvider(name)
      ? {
          name: name.replace(upstream, "provider "),
          values: valuesOf(kind, view, name),
          colour: providerColour(providers.indexOf(name)),
        }
      : seriesOfSlot(kind, view, name, places),
  );
  return all.filter(({ name, values }) => name !== noSlot && values.some((value) => value !== null && value > 0));
}

function seriesOfSlot(
  kind: Kind,
  view: TrafficView | undefined,
  name: string,
  places: ReadonlyMap<string, number>,
): ChartSeries {
  return { name, values: valuesOf(kind, view, name), colour: slotColour(places.get(name)) };
}

function valuesOf(kind: Kind, view: TrafficView | undefined, slot: string): readonly (number | null)[] {
  if (kind === "latency") return firstTokens(view, "p50", slot).map((ms) => (ms === null ? null : ms / 1000));
  return figureOf(view, kind === "tokens" ? "tokens_out" : "requests", slot).map((count) => count / stepSeconds);
}

function summaryOf(kind: Kind, series: readonly ChartSeries[]): string {
  const said = series.map(({ name, values }) => {
    const known = values.flatMap((value) => value ?? []);
    const { textOf } = kinds[kind];
    return `${name}: latest ${textOf(known.at(-1) ?? 0)}, at most ${textOf(Math.max(0, ...known))}`;
  });
  return `${kinds[kind].word} of the last fifteen minutes. ${said.join("; ")}`;
}
