/** One question of a panel: a query, and the name of each line of its answer. */
export interface Query {
  readonly expr: string;
  readonly legend: string;
}

/** Grafana's names of units: https://github.com/grafana/grafana/blob/main/packages/grafana-data/src/valueFormats */
export type Unit = "s" | "bytes" | "Bps" | "percentunit" | "reqps" | "short" | "cps" | "bool_on_off";

export interface Panel {
  readonly title: string;
  readonly kind: "timeseries" | "stat";
  readonly unit: Unit;
  readonly queries: readonly Query[];
}

export interface Dashboard {
  readonly name: string;
  readonly title: string;
  /** Choices at its top: a name, and the label of which family gives the values. */
  readonly variables: readonly { readonly name: string; readonly metric: string; readonly label: string }[];
  readonly panels: readonly Panel[];
}

export function graph(
  title: string,
  unit: Unit,
  ...queries: readonly (readonly [expr: string, legend: string])[]
): Panel {
  return { title, kind: "timeseries", unit, queries: queries.map(([expr, legend]) => ({ expr, legend })) };
}

export function figure(title: string, unit: Unit, expr: string, legend = ""): Panel {
  return { title, kind: "stat", unit, queries: [{ expr, legend }] };
}

const source = { type: "prometheus", uid: "${source}" } as const;
const height = 8;
const width = { timeseries: 12, stat: 6 } as const;
const columns = 24;

/** The dashboard as Grafana (10 and later) imports it. */
export function grafanaJson(dashboard: Dashboard): string {
  let x = 0;
  let y = 0;
  const panels = dashboard.panels.map(({ title, kind, unit, queries }, at) => {
    if (x + width[kind] > columns) {
      x = 0;
      y += height;
    }
    const gridPos = { h: height, w: width[kind], x, y };
    x += width[kind];
    return {
      id: at + 1,
      title,
      type: kind,
      datasource: source,
      gridPos,
      fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
      targets: queries.map(({ expr, legend }, nth) => ({
        refId: String.fromCodePoint(65 + nth),
        datasource: source,
        expr,
        legendFormat: legend,
        exemplar: expr.includes("_bucket"),
      })),
    };
  });
  const chosen = dashboard.variables.map(({ name, metric, label }) => ({
    name,
    type: "query",
    datasource: source,
    query: { query: `label_values(${metric}, ${label})`, refId: name },
    includeAll: true,
    multi: true,
    current: { text: "All", value: "$__all" },
    refresh: 2,
    sort: 1,
  }));
  return JSON.stringify({
    uid: `berth-${dashboard.name}`,
    title: dashboard.title,
    tags: ["berth"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-1h", to: "now" },
    templating: { list: [{ name: "source", type: "datasource", query: "prometheus" }, ...chosen] },
    panels,
  });
}
