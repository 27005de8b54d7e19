import { isRecord } from "../../lib/record.ts";

/** A key, dotted where it has several parts. */
export function keyText(path: readonly string[]): string {
  return path.map((part) => (/^[A-Za-z0-9_-]+$/.test(part) ? part : basic(part))).join(".");
}

/** A value on one line. */
export function inlineText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inlineText).join(", ")}]`;
  if (isRecord(value)) {
    const pairs = Object.entries(value).filter(([, inner]) => inner !== undefined);
    if (pairs.length === 0) return "{}";
    return `{ ${pairs.map(([key, inner]) => `${keyText([key])} = ${inlineText(inner)}`).join(", ")} }`;
  }
  if (typeof value === "string") return basic(value);
  // A number beyond the exact integers is a float.
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value))
    return value.toExponential();
  return Object.is(value, -0) ? "-0.0" : String(value);
}

/** Whether the value becomes tables of its own: a person would not write it on one line. */
export function isSectioned(value: unknown): boolean {
  return isRecord(value) || (Array.isArray(value) && value.length > 0 && value.every(isRecord));
}

/** A map as a table with its header, a list of maps as one table each; the top of a file has no header. */
export function tableLines(
  path: readonly string[],
  value: unknown,
  [open, close]: readonly [string, string] = ["[", "]"],
): string[] {
  if (Array.isArray(value)) return sections(value.map((each) => tableLines(path, each, ["[[", "]]"])));
  const fields = Object.entries(isRecord(value) ? value : {}).filter(([, field]) => field !== undefined);
  const own = fields
    .filter(([, field]) => !isSectioned(field))
    .map(([key, field]) => `${keyText([key])} = ${inlineText(field)}`);
  const below = fields
    .filter(([, field]) => isSectioned(field))
    .map(([key, field]) => tableLines([...path, key], field));
  const hasHeader = path.length > 0 && (own.length > 0 || below.length === 0 || open === "[[");
  const header = hasHeader ? [`${open}${keyText(path)}${close}`] : [];
  return sections([[...header, ...own], ...below]);
}

/** The texts one below the other, separated by an empty line. */
function sections(parts: readonly (readonly string[])[]): string[] {
  return parts.filter((part) => part.length > 0).flatMap((part, index) => (index === 0 ? part : ["", ...part]));
}

/** A value in the quotes of the previous text, if it is a text. */
export function valueText(value: unknown, before: string): string {
  const isLiteral = /^'(?!'')/.test(before) && typeof value === "string" && /^[^'\p{Cc}]*$/u.test(value);
  return isLiteral ? `'${value}'` : inlineText(value);
}

function basic(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007f");
}
