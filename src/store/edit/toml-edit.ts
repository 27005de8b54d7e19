import { stringify } from "smol-toml";
import { parseTOML, type AST } from "toml-eslint-parser";
import { isRecord } from "../../lib/record.ts";
import { pathToToml, toToml } from "../spelling.ts";
import type { FieldChange } from "./difference.ts";

/**
 * A TOML text with fields changed, each where it stands: a value is replaced, a key is added at the end of its table,
 * a key goes with its line. Everything else stays as it is, comments included. Paths are spelled as the resources
 * spell them.
 */
export function editToml(text: string, changes: readonly FieldChange[]): string {
  let edited = text;
  for (const { path, value } of changes) {
    const spelled = pathToToml(path).map(String);
    edited = value === undefined ? remove(edited, spelled) : put(edited, spelled, spelledValue(path, value));
  }
  return edited;
}

/** A spec as a new TOML file. */
export function tomlText(spec: Readonly<Record<string, unknown>>): string {
  return stringify(toToml(spec));
}

interface FoundPair {
  readonly path: readonly string[];
  readonly node: AST.TOMLKeyValue;
  readonly isInline: boolean;
}

interface Found {
  readonly pairs: readonly FoundPair[];
  /** Where the keys of a table end, by its path; the top of the file is the empty one. */
  readonly ends: ReadonlyMap<string, number>;
}

function look(text: string): Found {
  const pairs: FoundPair[] = [];
  const ends = new Map<string, number>();
  const visitPair = (node: AST.TOMLKeyValue, base: readonly string[], isInline: boolean): void => {
    const path = [...base, ...node.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value))];
    pairs.push({ path, node, isInline });
    if (node.value.type === "TOMLInlineTable") for (const inner of node.value.body) visitPair(inner, path, true);
  };
  for (const node of parseTOML(text).body.flatMap((top) => top.body)) {
    if (node.type === "TOMLKeyValue") {
      visitPair(node, [], false);
      ends.set("", node.range[1]);
      continue;
    }
    const path = node.resolvedKey.map(String);
    ends.set(path.join("\0"), node.body.at(-1)?.range[1] ?? headerEnd(text, node.range[0]));
    for (const pair of node.body) visitPair(pair, path, false);
  }
  return { pairs, ends };
}

function headerEnd(text: string, from: number): number {
  const end = text.indexOf("\n", from);
  return end < 0 ? text.length : end;
}

function put(text: string, path: readonly string[], value: unknown): string {
  const { pairs, ends } = look(text);
  const own = pairs.find((pair) => samePath(pair.path, path));
  if (own !== undefined) {
    const [start, end] = own.node.value.range;
    return `${text.slice(0, start)}${inline(value)}${text.slice(end)}`;
  }
  const parent = path.slice(0, -1);
  const key = keyText(path.at(-1) ?? "");
  const holder = pairs.find((pair) => samePath(pair.path, parent));
  if (holder?.node.value.type === "TOMLInlineTable") {
    const at = holder.node.value.range[1] - 1;
    const isEmpty = holder.node.value.body.length === 0;
    const before = text.slice(0, at).trimEnd();
    return `${before}${isEmpty ? " " : ", "}${key} = ${inline(value)} ${text.slice(at)}`;
  }
  const end = ends.get(parent.join("\0"));
  if (end !== undefined) return insertLine(text, end, `${key} = ${inline(value)}`);
  if (parent.length === 0)
    return `${key} = ${inline(value)}\n${text === "" || text.startsWith("\n") ? "" : "\n"}${text}`;
  const header = parent.map(keyText).join(".");
  return `${text.trimEnd()}\n\n[${header}]\n${key} = ${inline(value)}\n`;
}

/** After the line that ends what ends at `end`: a comment behind it stays with it. */
function insertLine(text: string, end: number, line: string): string {
  const at = text.indexOf("\n", end);
  if (at < 0) return `${text}\n${line}\n`;
  return `${text.slice(0, at)}\n${line}${text.slice(at)}`;
}

function remove(text: string, path: readonly string[]): string {
  const { pairs } = look(text);
  const gone = pairs.filter((pair) => path.every((part, index) => pair.path[index] === part) && !pair.isInline);
  let edited = text;
  for (const { node } of gone.toReversed()) {
    const lineStart = edited.lastIndexOf("\n", node.range[0] - 1) + 1;
    const lineEnd = edited.indexOf("\n", node.range[1]);
    edited = edited.slice(0, lineStart) + (lineEnd < 0 ? "" : edited.slice(lineEnd + 1));
  }
  if (gone.length > 0) return edited;
  const inlined = pairs.find((pair) => samePath(pair.path, path));
  if (inlined === undefined) return text;
  const [start, end] = inlined.node.range;
  const after = /^\s*,\s*/.exec(text.slice(end))?.[0].length;
  if (after !== undefined) return text.slice(0, start) + text.slice(end + after);
  return text.slice(0, start).replace(/,?\s*$/, " ") + text.slice(end).trimStart();
}

function samePath(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((part, index) => part === b[index]);
}

function keyText(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key);
}

/** A value on one line. */
function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (isRecord(value)) {
    const pairs = Object.entries(value).filter(([, inner]) => inner !== undefined);
    return pairs.length === 0
      ? "{}"
      : `{ ${pairs.map(([key, inner]) => `${keyText(key)} = ${inline(inner)}`).join(", ")} }`;
  }
  if (typeof value === "string") return JSON.stringify(value).replaceAll("\u007f", "\\u007f");
  return String(value);
}

/** A map's keys as TOML spells them, as far as they are the resources' own words. */
function spelledValue(path: readonly string[], value: unknown): unknown {
  let nested: Record<string, unknown> = { [path.at(-1) ?? ""]: value };
  for (const part of path.slice(0, -1).toReversed()) nested = { [part]: nested };
  let spelled: unknown = toToml(nested);
  for (const part of pathToToml(path).map(String)) spelled = isRecord(spelled) ? spelled[part] : undefined;
  return spelled;
}
