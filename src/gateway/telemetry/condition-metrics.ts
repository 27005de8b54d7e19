import type { Condition } from "../../api/conditions.ts";
import { gatewayMetrics } from "../../api/metrics/gateway.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import { labelText } from "../../lib/metrics/spec.ts";
import type { Resource } from "../management/resource-index.ts";

/**
 * One series for each present condition of a resource; a former status or reason has none. The labels of conditions that
 * have not changed are not made again.
 */
export function exportConditions(page: MetricPage, read: () => Iterable<Resource>): void {
  const made = new WeakMap<readonly Condition[], readonly string[]>();
  const { condition } = gatewayMetrics;
  const labelsOf = ({ kind, name, conditions }: Resource): readonly string[] => {
    let labels = made.get(conditions);
    if (labels === undefined) {
      labels = conditions.map(({ type, status, reason }) =>
        labelText(condition.labels, { kind, name, type, status, reason }),
      );
      made.set(conditions, labels);
    }
    return labels;
  };
  page.read(condition, function* () {
    for (const resource of read()) for (const labels of labelsOf(resource)) yield [labels, 1];
  });
}
