import Plot, { type AlignedData, type Options } from "uplot";
import type { Mark } from "./marks.ts";
import { merged } from "./merged-marks.ts";
import type { ChartSeries } from "./parts/time-chart.tsx";

interface Drawn {
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly marks: readonly Mark[];
}

interface Kind {
  readonly isStacked: boolean;
  readonly textOf: (value: number) => string;
  readonly least: number;
  /** Told the step under the pointer, by its place; undefined: the pointer is elsewhere. */
  readonly onPoint: (step: number | undefined) => void;
}

export interface TimePlot extends Disposable {
  draw(drawn: Drawn): void;
}

/** Pixels between two marks that can be told apart. */
const markDistance = 8;
/** The opacity of areas: the lines of the grid are seen through them. */
const alpha = "4d";
const font = "11px Inter, system-ui, sans-serif";

/** A chart on a canvas that fills the box and has the colours of its style. */
export function plotIn(box: HTMLElement, drawn: Drawn, kind: Kind): TimePlot {
  let { marks } = drawn;
  const style = getComputedStyle(box);
  const size = (): { width: number; height: number } => ({ width: box.clientWidth, height: box.clientHeight });
  const options: Options = {
    ...size(),
    ...optionsOf(drawn.series, kind, style),
    hooks: {
      draw: [(plot) => drawMarks(plot, marks, style)],
      setCursor: [({ cursor }) => kind.onPoint(cursor.idx ?? undefined)],
    },
  };
  const plot = new Plot(options, dataOf(drawn, kind.isStacked), box);
  const resized = new ResizeObserver(() => plot.setSize(size()));
  resized.observe(box);
  // The canvas keeps the colours that it was drawn with.
  const redraw = (): void => plot.redraw();
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", redraw);
  const chosen = new MutationObserver(redraw);
  chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  return {
    draw(next) {
      marks = next.marks;
      plot.setData(dataOf(next, kind.isStacked));
    },
    [Symbol.dispose]() {
      resized.disconnect();
      chosen.disconnect();
      system.removeEventListener("change", redraw);
      plot.destroy();
    },
  };
}

/** The columns of the chart: of stacked areas the highest first, since each line covers the ones above it. */
function dataOf({ times, series }: Drawn, isStacked: boolean): AlignedData {
  if (!isStacked) return [[...times], ...series.map(({ values }) => [...values])];
  const sums: number[][] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(values.map((value, at) => (value ?? 0) + (below?.[at] ?? 0)));
  }
  return [[...times], ...sums.toReversed()];
}

function optionsOf(
  series: readonly ChartSeries[],
  { isStacked, textOf, least }: Kind,
  style: CSSStyleDeclaration,
): Pick<Options, "legend" | "cursor" | "scales" | "axes" | "series" | "bands"> {
  const stroke = (): string => style.color;
  const grid = { stroke: () => style.borderTopColor, width: 1 };
  const colourOf = (colour: string): string => style.getPropertyValue(`--${colour}`).trim();
  const paths = Plot.paths.stepped?.({ align: -1 });
  return {
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(least, high * 1.1)] } },
    axes: [
      { stroke, font, grid: { show: false }, ticks: { show: false }, space: 80, size: 28, values: "{HH}:{mm}" },
      { stroke, font, grid, ticks: { show: false }, size: 44, values: (_plot, all) => all.map(textOf) },
    ],
    series: [
      {},
      ...(isStacked ? series.toReversed() : series).map(({ name, colour }) => ({
        label: name,
        stroke: colourOf(colour),
        width: 1.5,
        points: { show: false },
        ...(paths === undefined ? {} : { paths }),
        ...(isStacked ? { fill: colourOf(colour) + alpha } : {}),
      })),
    ],
    // Each area ends at the one below it.
    bands: isStacked ? series.slice(1).map((_each, nth) => ({ series: [nth + 1, nth + 2] })) : [],
  };
}

/** Vertical lines in the colours of the states; the worst one with their number where several are too close. */
function drawMarks(plot: Plot, marks: readonly Mark[], style: CSSStyleDeclaration): void {
  const { ctx, bbox } = plot;
  const colours = { loaded: style.borderLeftColor, restarted: style.borderBottomColor, failed: style.borderRightColor };
  const ratio = devicePixelRatio;
  const seen = marks
    .map(({ at, what }) => ({ x: Math.round(plot.valToPos(at, "x", true)), what }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
  ctx.save();
  ctx.lineWidth = ratio * 1.5;
  ctx.font = `${11 * ratio}px Inter, system-ui, sans-serif`;
  ctx.textBaseline = "top";
  ctx.setLineDash([4 * ratio, 3 * ratio]);
  for (const { x, what, count } of merged(seen, markDistance * ratio)) {
    ctx.strokeStyle = ctx.fillStyle = colours[what];
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (count === 1) continue;
    const isAtEnd = x > bbox.left + bbox.width - 24 * ratio;
    ctx.textAlign = isAtEnd ? "right" : "left";
    ctx.fillText(String(count), x + (isAtEnd ? -4 : 4) * ratio, bbox.top);
  }
  ctx.restore();
}
