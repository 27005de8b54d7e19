/**
 * The problems that `promtool check metrics` finds on a page, as far as names and texts go: help for every family, `_total`
 * at the end of counters and of nothing else, base units, and no type's word in a name.
 */
export function metricProblems(page: string): string[] {
  const helped = new Set([...page.matchAll(/^# HELP (\S+) \S/gm)].map(([, name]) => name));
  return [...page.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = "", type = ""]) => [
    ...(helped.has(name) ? [] : [`${name} has no help`]),
    ...(name.endsWith("_total") === (type === "counter") ? [] : [`${name} is a ${type}`]),
    ...(/_(ms|milliseconds|minutes|hours|kb|mb|megabytes|percent)(_|$)/.test(name) ? [`${name} has no base unit`] : []),
    ...(/_(gauge|counter|histogram|summary)(_|$)/.test(name) ? [`${name} names its type`] : []),
  ]);
}
