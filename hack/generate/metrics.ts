import { gatewayMetrics, upstreamMetrics } from "../../src/api/metrics/gateway.ts";
import type { Metric } from "../../src/api/metrics/metric.ts";
import { groupMetrics } from "../../src/api/metrics/groups.ts";
import { operatorMetrics } from "../../src/api/metrics/operator.ts";

/** Every family of Berth's own. */
export const allMetrics: readonly (Metric & { readonly page: "gateway" | "operator" })[] = [
  ...Object.values({ ...gatewayMetrics }).map((metric: Metric) => ({ ...metric, page: "gateway" as const })),
  ...Object.values({ ...upstreamMetrics }).map((metric: Metric) => ({ ...metric, page: "gateway" as const })),
  ...Object.values({ ...operatorMetrics, ...groupMetrics }).map((metric: Metric) => ({
    ...metric,
    page: "operator" as const,
  })),
];

/** docs/metrics.md */
export function metricsPage(): string {
  return [
    "<!-- Written by hack/generate.ts from src/api/metrics; change it there and run `make generate`. -->\n",
    "# Metrics\n",
    "Berth has two pages: the gateway's at `/metrics` of its port (8080), and the operator's at `/metrics` of its port",
    "on loopback (8079). Both are in the text format of Prometheus, and in OpenMetrics for those who ask for it",
    "(Prometheus does): there, histograms of tokens name an example request in each bucket.",
    "[Monitoring](monitoring.md) says how to scrape them, and which alerts and dashboards come with Berth.\n",
    "What a client chooses freely, such as the name of an unknown model, is in no label: the column “at most” says how",
    "many series a family can have. Beside these each page has `process_*` and `nodejs_*` of its own process.\n",
    "## The gateway's page\n",
    table("gateway"),
    "## The operator's page\n",
    table("operator"),
    "## Buckets\n",
    ...allMetrics.flatMap(({ name, buckets }) =>
      buckets === undefined ? [] : [`- \`${name}\`: ${buckets.map((bound) => String(bound)).join(", ")}`],
    ),
    "",
    "The buckets of tokens are those of OpenTelemetry's metrics of generative models (0.01 s doubling to 81.92).",
  ].join("\n");
}

function table(page: "gateway" | "operator"): string {
  const rows = allMetrics
    .filter((metric) => metric.page === page)
    .map(
      ({ name, type, labels, unit, help, bound }) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(", ")} | ${unit} | ${help} | ${bound} |`,
    );
  return ["| name | type | labels | unit | meaning | at most |", "|---|---|---|---|---|---|", ...rows, ""].join("\n");
}
