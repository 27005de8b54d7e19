import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Mark } from "../marks.ts";
import type { TimePlot } from "../plot.ts";

export interface ChartSeries {
  readonly name: string;
  /** The oldest first, one for each time. */
  readonly values: readonly (number | null)[];
  /** The name of its colour. */
  readonly colour: string;
}

interface TimeChartProps {
  /** The chart in a sentence, for a reader of the screen. */
  readonly summary: string;
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  /** Drawn anew where it or the times are other objects. */
  readonly series: readonly ChartSeries[];
  /** The areas stand on one another. */
  readonly isStacked?: boolean;
  readonly textOf: (value: number) => string;
  /** The axis reaches at least to it: a quiet chart is no noise. */
  readonly least: number;
  /** Drawn as vertical lines. */
  readonly marks: readonly Mark[];
}

/** Lines or stacked areas over time, with the values under the pointer. The library of the chart comes once one is shown. */
export function TimeChart(props: TimeChartProps): JSX.Element {
  const { summary, times, series, isStacked = false, textOf, least, marks } = props;
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<{ readonly plot: TimePlot; readonly names: string } | undefined>(undefined);
  const [step, setStep] = useState<number>();
  const names = series.map(({ name, colour }) => `${name} ${colour}`).join("\n");
  useEffect(() => {
    let isGone = false;
    // A server that is away just now does not give the library: the next drawing asks for it again.
    const library = import("../plot.ts").catch(() => undefined);
    void library.then((module) => {
      const at = box.current;
      if (isGone || at === null || module === undefined) return;
      const drawn = { times, series, marks };
      if (chart.current?.names === names) return chart.current.plot.draw(drawn);
      chart.current?.plot[Symbol.dispose]();
      chart.current = { plot: module.plotIn(at, drawn, { isStacked, textOf, least, onPoint: setStep }), names };
    });
    return () => void (isGone = true);
  }, [times, series, marks.map(({ at, what }) => `${at} ${what}`).join()]);
  useEffect(
    () => () => {
      chart.current?.plot[Symbol.dispose]();
      chart.current = undefined;
    },
    [],
  );
  return (
    <>
      <div class="chart" role="img" aria-label={summary} ref={box} />
      <ul class="legend" aria-hidden="true">
        <li class="quiet number">{step === undefined ? "Latest" : clockText(times[step] ?? 0)}</li>
        {series.map(({ name, colour, values }) => {
          const value = step === undefined ? values.findLast((each) => each !== null) : values[step];
          return (
            <li key={name}>
              <span class={`swatch ${colour}`} /> {name}
              <span class="quiet number">{value === null || value === undefined ? "–" : textOf(value)}</span>
            </li>
          );
        })}
      </ul>
    </>
  );
}

function clockText(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString();
}
