import {
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  parseDocument,
  Parser,
  type Document,
  type Node,
  type Pair,
} from "yaml";
import type { FieldChange } from "./difference.ts";
import { listDifference } from "./list.ts";

/**
 * A YAML text with fields of one of its documents changed. The others stay unchanged. Of this one, order, comments and
 * quotes stay; its indentation may become that of the library. Values shared by anchors may become wrong: the caller
 * parses the result and compares. Throws where the document is no map.
 */
export function editYaml(text: string, index: number, changes: readonly FieldChange[]): string {
  if (changes.length === 0) return text;
  const mark = text.startsWith("\uFEFF") ? "\uFEFF" : "";
  const parts = partsOf(text.slice(mark.length).replaceAll("\r\n", "\n"));
  // Empty documents do not count, as for the reader.
  const [at, document] = parts
    .map((part, position) => [position, parseDocument(part, { uniqueKeys: false, compat: "yaml-1.1" })] as const)
    .filter(([, each]) => each.toJS() !== null)[index] ?? [0, undefined];
  if (document === undefined || document.errors.length > 0) throw new Error("the document cannot be edited");
  for (const { path, value } of changes) change(document, path, value);
  parts[at] = document.toString({
    lineWidth: 0,
    // As most of the text has it.
    indentSeq: !/^( *)[^\s#-].*:[^\S\n]*\n\1- /m.test(text),
    flowCollectionPadding: /[{[] /.test(text),
  });
  const edited = parts.join("");
  return mark + (/^[^\n]*\r\n/.test(text) ? edited.replaceAll("\n", "\r\n") : edited);
}

/** The text cut before every `---` that begins a document. */
export function partsOf(text: string): string[] {
  const starts = [0];
  for (const token of new Parser().parse(text)) {
    if (token.type !== "document") continue;
    const mark = token.start.find(({ type }) => type === "doc-start");
    if (mark !== undefined && mark.offset > 0) starts.push(mark.offset);
  }
  return starts.map((start, at) => text.slice(start, starts[at + 1]));
}

function change(document: Document, path: readonly string[], value: unknown): void {
  let map: unknown = document.contents;
  for (const [at, part] of path.entries()) {
    if (!isMap(map)) throw new Error("the field is in no map");
    const pair: Pair | undefined = map.items.find(({ key }) => isScalar(key) && String(key.value) === part);
    const rest = path.slice(at + 1);
    if (rest.length > 0 && isMap(pair?.value)) {
      map = pair.value;
      continue;
    }
    if (value === undefined) {
      if (pair !== undefined && rest.length === 0) splice(map, map.items.indexOf(pair), 1);
      return;
    }
    const nested = rest.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
    if (pair === undefined) map.items.push(document.createPair(part, nested));
    else pair.value = replacement(document, pair.value, nested);
    return;
  }
}

/** Removes items from a map's pairs or a list, and puts others there. Comments above the removed ones stay. */
function splice<T>(
  collection: { items: T[]; comment?: string | null },
  at: number,
  count: number,
  added: readonly T[] = [],
): void {
  const removed = collection.items.splice(at, count, ...added);
  const above = removed.map((item) => commented(item)?.commentBefore);
  const next = commented(collection.items[at]);
  if (next === undefined) note(collection, "comment", [...above, collection.comment]);
  else note(next, "commentBefore", [...above, next.commentBefore]);
}

/** The node that has the comments above an item. */
function commented(item: unknown): Node | undefined {
  const node = isPair(item) ? item.key : item;
  return isNode(node) ? node : undefined;
}

function note<K extends "comment" | "commentBefore">(
  node: { [_ in K]?: string | null },
  place: K,
  comments: readonly (string | null | undefined)[],
): void {
  const all = comments.filter((each) => typeof each === "string");
  if (all.length > 0) node[place] = all.join("\n");
}

/** The node of a value, with the comments and the quotes of the previous one. A list is changed item by item. */
function replacement(document: Document, old: unknown, value: unknown): unknown {
  if (isSeq(old) && Array.isArray(value)) {
    const items = old.items.map((node) => ({ value: isNode(node) ? node.toJS(document) : node }));
    const { head, gone, added } = listDifference(items, value);
    const nodes = added.map((item) => document.createNode(item));
    splice(old, head, gone.length, nodes);
    return old;
  }
  const node = document.createNode(value);
  if (!isNode(old)) return node;
  if (old.spaceBefore === true) node.spaceBefore = true;
  if (!isScalar(old) || !isScalar(node)) {
    note(node, "commentBefore", [old.commentBefore, old.comment]);
    return node;
  }
  note(node, "commentBefore", [old.commentBefore]);
  note(node, "comment", [old.comment]);
  if (old.anchor !== undefined) node.anchor = old.anchor;
  const { type } = old;
  if ((type === "QUOTE_DOUBLE" || type === "QUOTE_SINGLE") && typeof node.value === "string") node.type = type;
  return node;
}
