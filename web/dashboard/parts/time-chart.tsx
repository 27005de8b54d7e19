import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { slotColour } from "../colours.ts";
import type { Mark } from "../marks.ts";

export interface ChartSeries {
  readonly name: string;
  /** The oldest first, one for each time. */
  readonly values: readonly (number | null)[];
  /** The place in the list of the slots' colours; undefined: the accent. */
  readonly colour?: number;
}

interface TimeChartProps {
  /** The chart in a sentence, for a reader of the screen. */
  readonly summary: string;
  /** Seconds since the epoch. */
  readonly times: readonly number[];
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
  const chart = useRef<{ readonly plot: uPlot; readonly names: string } | undefined>(undefined);
  const marked = useRef(marks);
  marked.current = marks;
  const names = series.map(({ name }) => name).join("\n");
  useEffect(() => {
    let isGone = false;
    // A server that is away just now does not give the library: the next drawing asks for it again.
    const library = import("uplot").catch(() => undefined);
    void library.then((module) => {
      const at = box.current;
      if (isGone || at === null || module === undefined) return;
      const { default: Plot } = module;
      const data = dataOf(times, series, isStacked);
      if (chart.current?.names === names) {
        chart.current.plot.setData(data);
        return;
      }
      chart.current?.plot.destroy();
      chart.current = {
        plot: new Plot(
          optionsOf(at, { series, isStacked, textOf, least, marks: () => marked.current }, Plot),
          data,
          at,
        ),
        names,
      };
    });
    return () => void (isGone = true);
  });
  useEffect(() => {
    const at = box.current;
    if (at === null) return undefined;
    const resized = new ResizeObserver(() =>
      chart.current?.plot.setSize({ width: at.clientWidth, height: at.clientHeight }),
    );
    resized.observe(at);
    return () => {
      resized.disconnect();
      chart.current?.plot.destroy();
      chart.current = undefined;
    };
  }, []);
  return (
    <>
      <div class="chart" role="img" aria-label={summary} ref={box} />
      {series.length > 1 && (
        <ul class="legend" aria-hidden="true">
          {series.map(({ name, colour }) => (
            <li key={name}>
              <span class={`swatch ${slotColour(colour)}`} /> {name}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** The columns of the chart: of stacked areas the highest first, since each covers the ones below it. */
function dataOf(times: readonly number[], series: readonly ChartSeries[], isStacked: boolean): uPlot.AlignedData {
  if (!isStacked) return [[...times], ...series.map(({ values }) => [...values])];
  const sums: number[][] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(values.map((value, at) => (value ?? 0) + (below?.[at] ?? 0)));
  }
  return [[...times], ...sums.toReversed()];
}

interface Drawn extends Pick<TimeChartProps, "series" | "textOf" | "least"> {
  readonly isStacked: boolean;
  /** Reads the marks whenever the chart is drawn: they change without a new chart. */
  readonly marks: () => readonly Mark[];
}

function optionsOf(
  at: HTMLElement,
  { series, isStacked, textOf, least, marks }: Drawn,
  Plot: typeof uPlot,
): uPlot.Options {
  const style = getComputedStyle(at);
  const stroke = (): string => getComputedStyle(at).color;
  const grid = { stroke: () => getComputedStyle(at).borderTopColor, width: 1 };
  const colourOf = (colour: number | undefined): string =>
    style.getPropertyValue(colour === undefined ? "--chart" : `--${slotColour(colour)}`).trim();
  const drawn = isStacked ? series.toReversed() : series;
  const font = "11px Inter, system-ui, sans-serif";
  return {
    width: at.clientWidth,
    height: at.clientHeight,
    legend: { show: false },
    hooks: { draw: [(plot) => drawMarks(plot, marks(), (what) => style.getPropertyValue(markColours[what]).trim())] },
    cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(least, high * 1.1)] } },
    axes: [
      { stroke, font, grid: { show: false }, ticks: { show: false }, space: 80, size: 28, values: "{HH}:{mm}" },
      { stroke, font, grid, ticks: { show: false }, size: 44, values: (_plot, all) => all.map(textOf) },
    ],
    series: [
      {},
      ...drawn.map(({ name, colour }) => ({
        label: name,
        stroke: colourOf(colour),
        width: 1.5,
        points: { show: false },
        paths: Plot.paths.stepped?.({ align: -1 }),
        ...(isStacked ? { fill: colourOf(colour) } : {}),
      })),
    ].map((each) => Object.fromEntries(Object.entries(each).filter(([, value]) => value !== undefined))),
  };
}

const markColours = {
  loaded: "--mark-loaded",
  restarted: "--mark-restarted",
  failed: "--mark-failed",
} as const satisfies Record<Mark["what"], string>;

function drawMarks(plot: uPlot, marks: readonly Mark[], colourOf: (what: Mark["what"]) => string): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio * 1.5;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at, what } of marks) {
    const x = Math.round(plot.valToPos(at, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colourOf(what);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
