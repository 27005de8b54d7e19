import { gatewayMetrics, upstreamMetrics } from "../../src/api/metrics/gateway.ts";
import { groupMetrics } from "../../src/api/metrics/groups.ts";
import { operatorMetrics } from "../../src/api/metrics/operator.ts";
import type { Dashboard } from "./dashboard.ts";

/** Families that are not Berth's own: Prometheus', the process's, and those of the blackbox exporter. */
const foreign = /^(up|ALERTS|process_\w+|nodejs_\w+|probe_ssl_earliest_cert_expiry|probe_success)$/;
const own: ReadonlySet<string> = new Set(
  [gatewayMetrics, upstreamMetrics, operatorMetrics, groupMetrics].flatMap((page) =>
    Object.values(page).flatMap(seriesNames),
  ),
);

function seriesNames({ name, type }: { readonly name: string; readonly type: string }): string[] {
  return type === "histogram" ? ["bucket", "sum", "count"].map((part) => `${name}_${part}`) : [name];
}

/** Names of a query that neither page has, and that no recording rule of `recorded` makes. */
export function unknownMetrics(expr: string, recorded: ReadonlySet<string>): string[] {
  const bare = expr.replaceAll(/"[^"]*"/g, "").replaceAll(/\b(by|on|without) \([^)]*\)/g, "");
  const names = [...bare.matchAll(/\b(?:berth[:_]|process_|nodejs_|probe_)[\w:]+|\bup\b/g)].map(([name]) => name);
  return names.filter((name) => !own.has(name) && !recorded.has(name) && !foreign.test(name));
}

/** Unknown metrics, panels without a query, and variables that no query uses or that no variable declares. */
export function lintDashboard({ name, panels, variables }: Dashboard, recorded: ReadonlySet<string>): string[] {
  const problems: string[] = [];
  const used = new Set<string>();
  for (const { title, queries } of panels) {
    if (queries.length === 0) problems.push(`${name}: ${title} asks nothing`);
    for (const { expr } of queries) {
      for (const metric of unknownMetrics(expr, recorded)) problems.push(`${name}: ${title}: no ${metric}`);
      for (const [, variable = ""] of expr.matchAll(/\$(\w+)/g)) if (variable !== "__rate_interval") used.add(variable);
    }
  }
  for (const variable of used)
    if (!variables.some((each) => each.name === variable)) problems.push(`${name}: no variable ${variable}`);
  for (const variable of variables) {
    if (!used.has(variable.name)) problems.push(`${name}: ${variable.name} is in no query`);
    problems.push(...unknownMetrics(variable.metric, recorded).map((metric) => `${name}: no ${metric}`));
  }
  return problems;
}
