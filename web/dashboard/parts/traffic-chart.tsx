import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { history } from "../history.ts";
import { figureOf, firstTokens, shownSteps } from "../traffic-steps.ts";
import { placesOf } from "../colours.ts";
import { slots } from "../live.ts";
import { TimeChart, type ChartSeries } from "./time-chart.tsx";

const stepSeconds = 5;
/** Requests that named no slot; they have no tokens. */
const noSlot = "none";

const kinds = {
  tokens: { word: "Tokens/s", least: 10, textOf: (value: number) => String(Math.round(value)) },
  requests: {
    word: "Requests/s",
    least: 1,
    textOf: (value: number) => (value < 10 ? value.toFixed(1) : String(Math.round(value))),
  },
  latency: { word: "First token", least: 1, textOf: (value: number) => `${value.toFixed(1)} s` },
} as const;
type Kind = keyof typeof kinds;

/** The last fifteen minutes of one slot, or of all by slot. */
export function TrafficChart({ slot }: { readonly slot?: string }): JSX.Element {
  const [kind, setKind] = useState<Kind>("tokens");
  const view = history.value;
  const endedAt = view === undefined ? Date.now() : Date.parse(view.ended_at);
  const times = Array.from({ length: shownSteps }, (_, at) => endedAt / 1000 - (shownSteps - 1 - at) * stepSeconds);
  const names =
    slot === undefined
      ? (view?.series ?? []).flatMap((series) => (series.slot === noSlot ? [] : series.slot)).toSorted()
      : [slot];
  const places = placesOf(slots.value.keys());
  const series = names.map((name): ChartSeries => {
    const colour = places.get(name);
    return { name, values: valuesOf(kind, name), ...(colour === undefined ? {} : { colour }) };
  });
  return (
    <>
      <div class="chart-head">
        <h2>{slot === undefined ? `${kinds[kind].word} by slot` : kinds[kind].word}</h2>
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
        <p class="empty">No request in the last fifteen minutes.</p>
      ) : (
        <TimeChart
          key={kind}
          summary={summaryOf(kind, series)}
          times={times}
          series={series}
          isStacked={kind !== "latency"}
          textOf={kinds[kind].textOf}
          least={kinds[kind].least}
        />
      )}
    </>
  );
}

function valuesOf(kind: Kind, slot: string): readonly (number | null)[] {
  const view = history.value;
  if (kind === "latency") return firstTokens(view, "p50", slot).map((ms) => (ms === null ? null : ms / 1000));
  return figureOf(view, kind === "tokens" ? "tokens_out" : "requests", slot).map((count) => count / stepSeconds);
}

function summaryOf(kind: Kind, series: readonly ChartSeries[]): string {
  const said = series.map(({ name, values }) => {
    const known = values.flatMap((value) => value ?? []);
    const { textOf } = kinds[kind];
    return `${name}: now ${textOf(known.at(-1) ?? 0)}, at most ${textOf(Math.max(0, ...known))}`;
  });
  return `${kinds[kind].word} of the last fifteen minutes. ${said.join("; ")}`;
}
