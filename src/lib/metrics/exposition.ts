/** Metrics of other programs, as they print them: Prometheus' text format or OpenMetrics, read with no trust. */

/** One sample: its value as printed, and its labels as text without braces; "" without any. */
export interface ForeignSample {
  readonly name: string;
  readonly labels: string;
  readonly value: string;
}

export interface ForeignFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string | undefined;
  readonly samples: ForeignSample[];
}

/** More samples of one program are left out. */
export const sampleLimit = 10_000;
const lineChars = 4096;
const helpChars = 500;
const types: ReadonlySet<string> = new Set(["counter", "gauge", "histogram", "summary"]);
const suffixes = ["_bucket", "_sum", "_count", "_total", "_created"] as const;

const name = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const label = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"\s*(,\s*|(?=\}))/y;
const number = /^(?:NaN|[+-]?Inf|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)$/;
/** The labels that a reader of several programs adds. A program's own are renamed, as Prometheus does. */
const reserved: ReadonlySet<string> = new Set(["slot", "role", "ordinal"]);

/**
 * The families of a page, by name. Lines that are no samples are passed over, and so is a series that is there twice;
 * of a page in another format nothing is left. Yields now and then, so that its reader can let other work go first.
 */
export function* readExposition(text: string): Generator<undefined, ReadonlyMap<string, ForeignFamily>> {
  const families = new Map<string, ForeignFamily>();
  const meta = new Map<string, { type?: string; help?: string }>();
  const seen = new Set<string>();
  let from = 0;
  for (let line = 0; from < text.length && seen.size < sampleLimit; line += 1) {
    if (line % 64 === 63) yield undefined;
    const newline = text.indexOf("\n", from);
    const end = newline === -1 ? text.length : newline;
    const one = end - from > lineChars ? "" : text.slice(from, end).trim();
    from = end + 1;
    if (one.startsWith("#")) noteMeta(meta, one);
    const sample = one === "" || one.startsWith("#") ? undefined : sampleIn(one);
    if (sample === undefined || sample.name.startsWith("berth_")) continue;
    const series = `${sample.name}{${sample.labels}`;
    if (seen.has(series)) continue;
    seen.add(series);
    const family = familyOf(sample.name, meta);
    let found = families.get(family);
    if (found === undefined) {
      const { type = "untyped", help } = meta.get(family) ?? {};
      families.set(family, (found = { name: family, type, help, samples: [] }));
    }
    found.samples.push(sample);
  }
  return families;
}

function noteMeta(meta: Map<string, { type?: string; help?: string }>, line: string): void {
  const [, word, family, rest = ""] = /^#\s+(HELP|TYPE)\s+([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(.*)$/.exec(line) ?? [];
  if (word === undefined || family === undefined || meta.size >= sampleLimit) return;
  const known = meta.get(family) ?? {};
  meta.set(family, known);
  if (word === "HELP") known.help ??= rest.replaceAll(/[^\x20-\x7e\u00a0-\uffff]/g, " ").slice(0, helpChars);
  else if (types.has(rest)) known.type ??= rest;
}

/** The declared family of a sample; without one its own name. */
function familyOf(of: string, meta: ReadonlyMap<string, { type?: string }>): string {
  if (meta.has(of)) return of;
  for (const suffix of suffixes) {
    const base = of.endsWith(suffix) ? of.slice(0, -suffix.length) : "";
    if (meta.get(base)?.type !== undefined) return base;
  }
  return of;
}

/** Undefined: the line is none. A time and an example after the value are left out. */
function sampleIn(line: string): ForeignSample | undefined {
  name.lastIndex = 0;
  const [found] = name.exec(line) ?? [];
  if (found === undefined) return undefined;
  let at = found.length;
  const labels: string[] = [];
  const names = new Set<string>();
  if (line[at] === "{") {
    at += 1;
    while (line[at] !== "}") {
      label.lastIndex = at;
      const [whole, key = "", value = ""] = label.exec(line) ?? [];
      const own = reserved.has(key) ? `exported_${key}` : key;
      // A reader would refuse the whole page for a label that is there twice.
      if (whole === undefined || key.startsWith("__") || names.has(own)) return undefined;
      names.add(own);
      labels.push(`${own}="${value}"`);
      at += whole.length;
    }
    at += 1;
  } else if (line[at] !== " " && line[at] !== "\t") return undefined;
  const [value = ""] = line.slice(at).trimStart().split(/\s/, 1);
  // What no reader can hold, such as 1e999, is none either.
  const isNumber = number.test(value) && (Number.isFinite(Number(value)) || /[a-z]{3}$/i.test(value));
  return isNumber ? { name: found, labels: labels.join(","), value } : undefined;
}
