import type { Dashboard, Panel, Unit } from "./dashboard.ts";

/** A line of a panel: its name, and points of a time in seconds and a value. */
export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [seconds: number, value: number])[];
}

const column = 50;
const rowHeight = 190;
const head = 34;
const widths = { timeseries: 12 * column, stat: 6 * column } as const;
const colors = ["#3274d9", "#e0762a", "#37872d", "#c4162a", "#8f3bb8", "#b8860b", "#00868b", "#6e6e6e"] as const;
const namedLines = 4;
const longestStepSeconds = 5;

/**
 * A dashboard as SVG in Grafana's grid, drawn by this file and not by Grafana. `linesOf` has the answers of each panel's
 * queries.
 */
export function drawDashboard(dashboard: Dashboard, linesOf: (panel: Panel) => readonly Line[]): string {
  const parts: string[] = [];
  let x = 0;
  let y = head;
  for (const panel of dashboard.panels) {
    if (x + widths[panel.kind] > 24 * column) {
      x = 0;
      y += rowHeight;
    }
    const inside = panel.kind === "stat" ? stat(panel, linesOf(panel)) : graph(panel, linesOf(panel));
    parts.push(
      `<g transform="translate(${x} ${y})"><rect x="4" y="4" width="${widths[panel.kind] - 8}" height="${rowHeight - 8}" fill="#fff" stroke="#d8d9da"/>`,
      text(14, 24, panel.title, 'font-weight="600"'),
      ...inside,
      "</g>",
    );
    x += widths[panel.kind];
  }
  const height = y + rowHeight;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${24 * column} ${height}" font-family="sans-serif" font-size="12" fill="#24292e">`,
    `<rect width="100%" height="100%" fill="#f4f5f5"/>`,
    text(10, 22, dashboard.title, 'font-size="15" font-weight="600"'),
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

function stat({ unit }: Panel, lines: readonly Line[]): string[] {
  // A series that has ended, as the state that a slot has left, has no present value.
  const last = Math.max(...lines.map(({ points }) => points.at(-1)?.[0] ?? 0));
  const present = lines.filter(({ points }) => points.at(-1)?.[0] === last);
  const named = present.slice(0, namedLines);
  const size = named.length > 1 ? 15 : 30;
  return [
    ...named.map(({ name, points }, at) => {
      const shown = inUnit(points.at(-1)?.[1], unit);
      return text(
        14,
        62 + at * 24,
        named.length > 1 ? `${name}: ${shown}` : shown,
        `font-size="${size}" fill="${colorOf(at)}"`,
      );
    }),
    ...more(present.length, 62 + named.length * 24),
  ];
}

function graph({ unit }: Panel, unsorted: readonly Line[]): string[] {
  // The legend has room for the highest lines only.
  const lines = unsorted.toSorted((one, other) => highest(other) - highest(one));
  const [left, right, top, bottom] = [70, widths.timeseries - 20, 36, 130];
  const points = lines.flatMap((line) => line.points);
  const times = points.map(([seconds]) => seconds);
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const most = niceMax(Math.max(0, ...lines.map(highest)));
  const at = ([seconds, value]: readonly [number, number]): string =>
    `${(left + ((seconds - from) / Math.max(1, to - from)) * (right - left)).toFixed(1)},${(bottom - (value / most) * (bottom - top)).toFixed(1)}`;
  const scale = [0, 0.5, 1].flatMap((part) => {
    const y = bottom - part * (bottom - top);
    return [
      `<path d="M${left} ${y}H${right}" stroke="#e4e5e6"/>`,
      text(left - 6, y + 4, inUnit(most * part, unit), 'text-anchor="end" fill="#6e6e6e" font-size="11"'),
    ];
  });
  const drawn = lines.flatMap((line, nth) =>
    withoutGaps(line).map(
      (part) =>
        `<polyline fill="none" stroke="${colorOf(nth)}" stroke-width="1.5" points="${part.map(at).join(" ")}"/>`,
    ),
  );
  const legend = lines.slice(0, namedLines).flatMap(({ name }, nth) => {
    const x = 14 + (nth % 2) * (widths.timeseries / 2);
    const y = 152 + Math.floor(nth / 2) * 16;
    return [`<rect x="${x}" y="${y - 6}" width="14" height="3" fill="${colorOf(nth)}"/>`, text(x + 20, y, name)];
  });
  const seconds = points.length === 0 ? "" : `${Math.round(to - from)} s`;
  return [
    ...scale,
    ...drawn,
    text(right, 24, seconds, 'text-anchor="end" fill="#6e6e6e" font-size="11"'),
    ...legend,
    ...more(lines.length, 168, right),
  ];
}

function more(lines: number, y: number, x = 14): string[] {
  const anchor = x === 14 ? "" : 'text-anchor="end" ';
  return lines > namedLines
    ? [text(x, y, `and ${lines - namedLines} more`, `${anchor}fill="#6e6e6e" font-size="11"`)]
    : [];
}

function text(x: number, y: number, words: string, attributes = ""): string {
  const escaped = words.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return `<text x="${x}" y="${y}" ${attributes}>${escaped}</text>`;
}

function colorOf(nth: number): string {
  return colors[nth % colors.length] ?? colors[0];
}

/** The parts of a line between its gaps: a time without a value is not drawn. */
function withoutGaps({ points }: Line): Line["points"][] {
  const parts: (readonly [number, number])[][] = [];
  let before = Number.NEGATIVE_INFINITY;
  for (const point of points) {
    if (!Number.isFinite(point[1])) continue;
    if (point[0] - before > longestStepSeconds) parts.push([]);
    parts.at(-1)?.push(point);
    before = point[0];
  }
  return parts;
}

function highest({ points }: Line): number {
  return Math.max(0, ...points.map(([, value]) => value).filter(Number.isFinite));
}

/** The next of 1, 2 and 5 times a power of ten. */
function niceMax(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((step) => step * power >= value) ?? 10) * power;
}

function inUnit(value: number | undefined, unit: Unit): string {
  if (value === undefined || !Number.isFinite(value)) return "no value";
  if (unit === "bool_on_off") return value === 0 ? "Off" : "On";
  if (unit === "percentunit") return `${rounded(value * 100)} %`;
  if (unit === "bytes" || unit === "Bps") {
    const steps = ["B", "KiB", "MiB", "GiB", "TiB"] as const;
    const step = Math.min(steps.length - 1, value < 1 ? 0 : Math.floor(Math.log2(value) / 10));
    return `${rounded(value / 1024 ** step)} ${steps[step] ?? "B"}${unit === "Bps" ? "/s" : ""}`;
  }
  if (unit === "s") return value < 1 ? `${rounded(value * 1000)} ms` : `${rounded(value)} s`;
  if (unit === "reqps") return `${rounded(value)} req/s`;
  if (unit === "cps") return `${rounded(value)} /s`;
  return rounded(value);
}

function rounded(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** A query's legend with the labels of a series in it. */
export function legendOf(legend: string, labels: Readonly<Record<string, string>>): string {
  return legend.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => labels[name] ?? "");
}
