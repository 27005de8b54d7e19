import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  parseAllDocuments,
  type Document,
  type Pair,
  type YAMLMap,
} from "yaml";
import type { FieldChange } from "./difference.ts";
import { lineStart, nextLine, replaced, withLines, withoutLineEnd } from "./lines.ts";
import { editInlineList, listDifference, type ListItem } from "./list.ts";
import { blockLines, flowText, keyText, scalarText } from "./yaml-text.ts";

/**
 * A YAML text with fields of one of its documents changed in place: a value is replaced, a key is added at the end of
 * its map, a key is removed with its lines. Everything else stays unchanged, comments included. Values shared by
 * anchors may become wrong: the caller parses the result and compares.
 */
export function editYaml(text: string, documentIndex: number, changes: readonly FieldChange[]): string {
  let edited = text;
  for (const { path, value } of changes) {
    const root = documentAt(edited, documentIndex)?.contents;
    if (!isMap(root)) return text;
    const spot = locate(root, path);
    edited = value === undefined ? remove(edited, spot) : put(edited, spot, value);
  }
  return edited;
}

type Item = Pair;

/** The deepest map on the path to a field, its value under the next key, and the remaining keys. */
interface Spot {
  readonly map: YAMLMap;
  readonly pair: Item | undefined;
  readonly rest: readonly string[];
  /** The pair that holds the map, and its own map; absent for the whole document. */
  readonly holder: { readonly map: YAMLMap; readonly pair: Item } | undefined;
}

/** Non-empty documents, as the reader counts them. */
function documentAt(text: string, index: number): Document.Parsed | undefined {
  const documents: Document.Parsed[] = [];
  const parsed: Iterable<Document.Parsed> = parseAllDocuments(text, { keepSourceTokens: true, uniqueKeys: false });
  for (const document of parsed) if (document.toJS() !== null) documents.push(document);
  return documents[index];
}

function locate(root: YAMLMap, path: readonly string[]): Spot {
  let map = root;
  let holder: Spot["holder"];
  for (const [index, part] of path.entries()) {
    const pair = map.items.find(({ key }) => isScalar(key) && String(key.value) === part);
    const isLast = index === path.length - 1;
    if (pair === undefined || isLast || !isMap(pair.value)) return { map, pair, rest: path.slice(index), holder };
    holder = { map, pair };
    map = pair.value;
  }
  return { map, pair: undefined, rest: [], holder };
}

function put(text: string, { map, pair, rest: [key = "", ...below] }: Spot, value: unknown): string {
  const nested = below.toReversed().reduce<unknown>((inner, part) => ({ [part]: inner }), value);
  return pair === undefined ? insert(text, map, key, nested) : replace(text, map, pair, nested);
}

function remove(text: string, { map, pair, rest, holder }: Spot): string {
  if (pair === undefined || rest.length !== 1) return text;
  const at = map.items.indexOf(pair);
  if (map.flow === true) {
    const next = map.items[at + 1];
    const before = map.items[at - 1];
    if (before !== undefined) return replaced(text, endOf(before), endOf(pair), "");
    return replaced(text, startOf(pair), next === undefined ? endOf(pair) : startOf(next), "");
  }
  if (map.items.length > 1) return replaced(text, lineStart(text, startOf(pair)), nextLine(text, endOf(pair)), "");
  if (holder !== undefined) return replace(text, holder.map, holder.pair, {});
  return replaced(text, startOf(pair), withoutLineEnd(text, endOf(pair)), "{}");
}

function insert(text: string, map: YAMLMap, key: string, value: unknown): string {
  const last = map.items.at(-1);
  if (map.flow === true || last === undefined) {
    const pair = `${keyText(key)}: ${flowText(value)}`;
    if (last !== undefined) return replaced(text, endOf(last), endOf(last), `, ${pair}`);
    const [start, end] = rangeOf(map);
    return replaced(text, start, end, `{${pair}}`);
  }
  return withLines(text, nextLine(text, endOf(last)), blockLines({ [key]: value }, columnOf(text, map)));
}

function replace(text: string, map: YAMLMap, pair: Item, value: unknown): string {
  const node = pair.value;
  const colon = colonOf(pair);
  // An absent value lies behind the comment of its line.
  const isWritten = isNode(node) && rangeOf(node)[0] < rangeOf(node)[1];
  const [start, rawEnd] = isWritten ? rangeOf(node) : [colon + 1, colon + 1];
  const end = withoutLineEnd(text, rawEnd);
  const isFlow = map.flow === true || ((isMap(node) || isSeq(node)) && node.flow === true);
  const isBlock = !isFlow && (isMap(node) || isSeq(node));
  if (isSeq(node) && Array.isArray(value)) {
    const edited = isBlock ? editBlockList(text, node, value) : editInlineList(text, itemsOf(node), value, flowText);
    if (edited !== undefined) return edited;
  }
  const isEmpty = typeof value !== "object" || value === null || Object.keys(value).length === 0;
  if (isFlow || isEmpty) {
    const written = scalarText(value, { before: text[start] ?? "", isFlow });
    if (isBlock || start === end) return replaced(text, colon + 1, isBlock ? end : colon + 1, ` ${written}`);
    return replaced(text, start, end, written);
  }
  if (isBlock) {
    const lines = blockLines(value, start - lineStart(text, start));
    return withLines(replaced(text, lineStart(text, start), nextLine(text, rawEnd), ""), lineStart(text, start), lines);
  }
  // Below the line of the key, whose comment stays.
  const bare = isAlias(node) || isScalar(node) ? replaced(text, colon + 1, Math.max(end, colon + 1), "") : text;
  return withLines(bare, nextLine(bare, colon + 1), blockLines(value, columnOf(text, map) + 2));
}

function itemsOf(node: { readonly items: readonly unknown[] }): ListItem[] {
  return node.items.flatMap((item) => {
    if (!isNode(item)) return [];
    const [start, end] = rangeOf(item);
    const value: unknown = isScalar(item) ? item.value : item.toJSON();
    return [{ start, end, value }];
  });
}

/** A list of lines with dashes; undefined where its dashes cannot be found, or none would be left. */
function editBlockList(
  text: string,
  node: { readonly items: readonly unknown[]; readonly srcToken?: unknown },
  next: readonly unknown[],
): string | undefined {
  const items = itemsOf(node).map((item) => ({ ...item, line: lineStart(text, item.start) }));
  const areLines = items.every(({ start, line }) => /^ *- +$/.test(text.slice(line, start)));
  if (!areLines || items.length !== node.items.length || next.length === 0) return undefined;
  const { head, gone, added } = listDifference(items, next);
  const [first] = gone;
  const before = items[head - 1];
  const at = first?.line ?? (before === undefined ? items[0]?.line : nextLine(text, before.end)) ?? 0;
  const last = gone.at(-1);
  const dashes = text.slice(items[0]?.line ?? 0, items[0]?.start ?? 0).indexOf("-");
  const rest = last === undefined ? text : replaced(text, at, nextLine(text, last.end), "");
  return added.length === 0 ? rest : withLines(rest, at, blockLines(added, dashes));
}

function startOf({ key }: Item): number {
  return isNode(key) ? rangeOf(key)[0] : 0;
}

function endOf({ key, value }: Item): number {
  if (isNode(value)) return rangeOf(value)[1];
  return isNode(key) ? rangeOf(key)[1] : 0;
}

function rangeOf(node: { readonly range?: readonly number[] | null | undefined }): [start: number, end: number] {
  const [start = 0, end = 0] = node.range ?? [];
  return [start, end];
}

function columnOf(text: string, { items: [first] }: YAMLMap): number {
  const start = first === undefined ? 0 : startOf(first);
  return start - lineStart(text, start);
}

function colonOf(pair: Item): number {
  const sep = pair.srcToken !== undefined && "sep" in pair.srcToken ? pair.srcToken.sep : undefined;
  return sep?.find(({ type }) => type === "map-value-ind")?.offset ?? endOf(pair);
}
