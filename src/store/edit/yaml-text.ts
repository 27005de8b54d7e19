import { stringify } from "yaml";

/** Also quoted where only YAML 1.1 would read another value: other tools read these files too. */
const style = { lineWidth: 0, compat: "yaml-1.1", flowCollectionPadding: false } as const;

/** Whole lines of a non-empty map or list, from this column on. */
export function blockLines(value: unknown, column: number): string[] {
  const text = stringify(value, { ...style, indentSeq: true }).replace(/\n+$/, "");
  return text.split("\n").map((line) => (line === "" ? "" : " ".repeat(column) + line));
}

/** Any value on one line, valid between brackets. */
export function flowText(value: unknown): string {
  const flow = { ...style, collectionStyle: "flow" } as const;
  const plain = stringify([value], flow).replace(/\n+$/, "");
  // Only quotes keep a text of several lines on one line.
  const text = plain.includes("\n")
    ? stringify([value], {
        ...flow,
        defaultStringType: "QUOTE_DOUBLE",
        doubleQuotedMinMultiLineLength: Infinity,
      }).replace(/\n+$/, "")
    : plain;
  return text.slice(1, -1);
}

/** Any value on one line; a text in the quotes of the previous text. */
export function scalarText(value: unknown, { before, isFlow }: { before: string; isFlow: boolean }): string {
  const type = before === '"' ? "QUOTE_DOUBLE" : before === "'" ? "QUOTE_SINGLE" : "PLAIN";
  if (typeof value !== "string" || value.includes("\n") || (isFlow && type === "PLAIN")) return flowText(value);
  return stringify(value, { ...style, defaultStringType: type }).replace(/\n+$/, "");
}

/** A key in YAML, quoted where necessary. */
export function keyText(key: string): string {
  return flowText(key);
}

/** A spec as a new YAML file. */
export function yamlText(spec: Readonly<Record<string, unknown>>): string {
  return stringify(spec, style);
}
