import { parse } from "smol-toml";
import { parseTOML, type AST } from "toml-eslint-parser";
import { isRecord } from "../../lib/record.ts";
import { pathToToml, toToml } from "../files/spelling.ts";
import type { FieldChange } from "./difference.ts";
import { lineEnd, lineStart, nextLine, replaced, withLines } from "./lines.ts";
import { editInlineList } from "./list.ts";
import { inlineText, isSectioned, keyText, tableLines, valueText } from "./toml-text.ts";

/**
 * A TOML text with fields changed in place: a value is replaced, a key is added at the end of its table, a key is
 * removed with its lines. Everything else stays unchanged, comments included. Paths are in the resources' spelling. The
 * caller parses the result and compares.
 */
export function editToml(text: string, changes: readonly FieldChange[]): string {
  // The parser with ranges does not accept the byte order mark that some editors write.
  const mark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  let edited = text.slice(mark.length);
  let left = changes.map(({ path, value }): Change => {
    const spelled = pathToToml(path).map(String);
    return { path: spelled, value: value === undefined ? undefined : spelledValue(path, value) };
  });
  while (left.length > 0) {
    const run = firstRun(left);
    left = left.slice(run.length);
    edited = run.length > 1 ? putAll(edited, run) : run.reduce(changed, edited);
  }
  return mark + edited;
}

type Change = FieldChange;

function changed(text: string, { path, value }: Change): string {
  return value === undefined ? removeField(text, path) : put(text, path, value);
}

/** The leading values for one map: each change alone would parse the whole text. */
function firstRun(changes: readonly Change[]): readonly Change[] {
  const parent = changes[0]?.path.slice(0, -1) ?? [];
  const end = changes.findIndex(({ path, value }) => value === undefined || !isSame(path.slice(0, -1), parent));
  return end < 0 ? changes : changes.slice(0, Math.max(1, end));
}

/** Like one `put` after the other, of values in one map. */
function putAll(text: string, changes: readonly Change[]): string {
  const nodes = new Map(nodesOf(text).pairs.map(({ path, node }) => [path.join("\0"), node.value]));
  const found = changes.flatMap(({ path, value }) => {
    const node = nodes.get(path.join("\0"));
    return node === undefined ? [] : [{ node, value }];
  });
  // From the end on, so that earlier offsets stay valid.
  const order = found.toSorted((a, b) => b.node.range[0] - a.node.range[0]);
  const rewritten = order.reduce((edited, { node, value }) => replaceValue(edited, node, value), text);
  const [first, ...more] = changes.filter(({ path }) => !nodes.has(path.join("\0")));
  if (first === undefined) return rewritten;
  // The first adds the table where it is missing.
  const begun = changed(rewritten, first);
  return more.length === 0 ? begun : (addAll(begun, more) ?? more.reduce(changed, begun));
}

/** With new keys at the end of their table; undefined where the table is missing, or has one of them. */
function addAll(text: string, changes: readonly Change[]): string | undefined {
  const parent = changes[0]?.path.slice(0, -1) ?? [];
  const { pairs, tables } = nodesOf(text);
  const table = tables.find((each) => isSame(each.path, parent));
  const taken = new Set([...pairs, ...tables].map(({ path }) => path.slice(0, parent.length + 1).join("\0")));
  if (table === undefined || changes.some(({ path, value }) => isSectioned(value) || taken.has(path.join("\0"))))
    return undefined;
  const lines = changes.map(({ path, value }) => `${keyText(path.slice(-1))} = ${inlineText(value)}`);
  return withLines(text, nextLine(text, table.end), lines);
}

/** A spec as a new TOML file. */
export function tomlText(spec: Readonly<Record<string, unknown>>): string {
  const lines = tableLines([], toToml(spec));
  return lines.map((line) => `${line}\n`).join("");
}

type Path = readonly string[];

interface FoundPair {
  readonly path: Path;
  /** The path of the table around it: the rest of its path is its dotted key. */
  readonly table: Path;
  readonly node: AST.TOMLKeyValue;
  /** The inline table around it. */
  readonly inline: AST.TOMLInlineTable | undefined;
}

interface FoundTable {
  readonly path: Path;
  readonly start: number;
  /** The end of its last pair, or of its header. */
  readonly end: number;
}

interface Found {
  readonly pairs: readonly FoundPair[];
  readonly tables: readonly FoundTable[];
}

function nodesOf(text: string): Found {
  const pairs: FoundPair[] = [];
  const tables: FoundTable[] = [];
  const visit = (node: AST.TOMLKeyValue, table: Path, base: Path, inline?: AST.TOMLInlineTable): void => {
    const path = [...base, ...node.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value))];
    pairs.push({ path, table, node, inline });
    if (node.value.type !== "TOMLInlineTable") return;
    for (const inner of node.value.body) visit(inner, path, path, node.value);
  };
  for (const node of parseTOML(text).body.flatMap((top) => top.body)) {
    if (node.type === "TOMLKeyValue") {
      visit(node, [], []);
      continue;
    }
    const path = node.resolvedKey.map(String);
    const end = node.body.at(-1)?.range[1] ?? text.indexOf("]", node.key.range[1]) + 1;
    tables.push({ path, start: node.range[0], end });
    for (const pair of node.body) visit(pair, path, path);
  }
  return { pairs, tables };
}

function put(text: string, path: Path, value: unknown): string {
  const { pairs, tables } = nodesOf(text);
  const own = pairs.find((pair) => isSame(pair.path, path));
  if (own !== undefined) return replaceValue(text, own.node.value, value);
  // Written as tables or dotted keys, and now another kind of value.
  if ([...pairs, ...tables].some((each) => isSame(each.path, path) || isBelow(each.path, path)))
    return put(remove(text, path), path, value);
  const parent = path.slice(0, -1);
  const holder = pairs.find((pair) => isSame(pair.path, parent))?.node.value;
  if (holder?.type === "TOMLInlineTable")
    return putInline(text, holder, `${keyText(path.slice(-1))} = ${inlineText(value)}`);
  const isAround = pairs.some((pair) => pair.node.value.type === "TOMLInlineTable" && isBelow(path, pair.path));
  if (isAround) return put(text, parent, { [path.at(-1) ?? ""]: value });
  const dotted = pairs.findLast(
    (pair) => pair.inline === undefined && parent.length > pair.table.length && isBelow(pair.path, parent),
  );
  if (dotted !== undefined) {
    const key = keyText(path.slice(dotted.table.length));
    return withLines(text, nextLine(text, dotted.node.range[1]), [`${key} = ${inlineText(value)}`]);
  }
  if (isSectioned(value)) return withSection(text, path, value);
  const line = `${keyText(path.slice(-1))} = ${inlineText(value)}`;
  if (parent.length === 0) return putTop(text, pairs, tables, line);
  const table = tables.find((each) => isSame(each.path, parent));
  if (table !== undefined) return withLines(text, nextLine(text, table.end), [line]);
  return withSection(text, parent, { [path.at(-1) ?? ""]: value });
}

function withSection(text: string, path: Path, value: unknown): string {
  const lines = tableLines(path, value);
  return withLines(text, text.length, text.trim() === "" ? lines : ["", ...lines]);
}

function putTop(text: string, pairs: Found["pairs"], tables: Found["tables"], line: string): string {
  const last = pairs.findLast(({ table, inline }) => table.length === 0 && inline === undefined);
  if (last !== undefined) return withLines(text, nextLine(text, last.node.range[1]), [line]);
  const [first] = tables;
  if (first === undefined) return withLines(text, text.length, [line]);
  // Before the first table and the comment that belongs to it.
  let at = lineStart(text, first.start);
  while (at > 0 && /^[ \t]*#(?!:)/.test(text.slice(lineStart(text, at - 1), at))) at = lineStart(text, at - 1);
  return withLines(text, at, [line, ""]);
}

function putInline(text: string, { body, range: [start, end] }: AST.TOMLInlineTable, pair: string): string {
  const last = body.at(-1)?.range[1];
  return last === undefined ? replaced(text, start, end, `{ ${pair} }`) : replaced(text, last, last, `, ${pair}`);
}

function replaceValue(text: string, node: AST.TOMLContentNode, value: unknown): string {
  const [start, end] = node.range;
  if (node.type === "TOMLArray" && Array.isArray(value)) {
    const old: unknown = parse(`list = ${text.slice(start, end)}`)["list"];
    const values: readonly unknown[] = Array.isArray(old) ? old : [];
    const items = node.elements.map(({ range }, index) => ({ start: range[0], end: range[1], value: values[index] }));
    const edited = editInlineList(text, items, value, inlineText);
    if (edited !== undefined) return edited;
  }
  return replaced(text, start, end, valueText(value, text.slice(start, end)));
}

/** Removes a field; the map around it stays, possibly empty. */
function removeField(text: string, path: Path): string {
  const removed = remove(text, path);
  const parent = path.slice(0, -1);
  const { pairs, tables } = nodesOf(removed);
  const isThere = [...pairs, ...tables].some((each) => isSame(each.path, parent) || isBelow(each.path, parent));
  return parent.length === 0 || isThere ? removed : put(removed, parent, {});
}

function remove(text: string, path: Path): string {
  const { pairs, tables } = nodesOf(text);
  const inlined = pairs.find((pair) => pair.inline !== undefined && isSame(pair.path, path));
  if (inlined?.inline !== undefined) return removeInline(text, inlined.inline, inlined.node);
  const gone = [
    ...pairs
      .filter((pair) => pair.inline === undefined && (isSame(pair.path, path) || isBelow(pair.path, path)))
      .filter((pair) => !isSame(pair.table, path) && !isBelow(pair.table, path))
      .map(({ node: { range } }) => ({ start: range[0], end: range[1] })),
    ...tables.filter((table) => isSame(table.path, path) || isBelow(table.path, path)),
  ];
  let edited = text;
  for (const { start, end } of gone.toSorted((a, b) => b.start - a.start)) {
    let from = lineStart(edited, start);
    const to = nextLine(edited, end);
    // The empty line before a section is removed with it.
    const isBetween = /^\r?\n/.test(edited.slice(to)) || to === edited.length;
    if (edited[start] === "[" && isBetween && /\n\r?\n$/.test(edited.slice(0, from))) from -= lineEnd(edited).length;
    edited = replaced(edited, from, to, "");
  }
  return edited;
}

function removeInline(text: string, { body, range }: AST.TOMLInlineTable, node: AST.TOMLKeyValue): string {
  const at = body.indexOf(node);
  const before = body[at - 1];
  const next = body[at + 1];
  if (before !== undefined) return replaced(text, before.range[1], node.range[1], "");
  if (next !== undefined) return replaced(text, node.range[0], next.range[0], "");
  return replaced(text, range[0], range[1], "{}");
}

function isSame(a: Path, b: Path): boolean {
  return a.length === b.length && a.every((part, index) => part === b[index]);
}

/** True when `path` is below `above`. */
function isBelow(path: Path, above: Path): boolean {
  return path.length > above.length && above.every((part, index) => part === path[index]);
}

/** A map's keys in TOML's spelling, as far as they are the resources' own keys. */
function spelledValue(path: Path, value: unknown): unknown {
  let spelled: unknown = toToml(path.toReversed().reduce<unknown>((inner, part) => ({ [part]: inner }), value));
  for (const part of pathToToml(path).map(String)) spelled = isRecord(spelled) ? spelled[part] : undefined;
  return spelled;
}
