import { parse as parseToml } from "smol-toml";
import { parseTOML, type AST } from "toml-eslint-parser";
import { isMap, isScalar, isSeq, LineCounter, parseAllDocuments, visit, type Document, type Node } from "yaml";
import { fromToml, pathFromToml } from "./spelling.ts";
import type { TextPosition } from "./text-position.ts";
import { conflictMarker, tomlProblem } from "./toml-problem.ts";

/** One document of a file, as data, with the positions of its fields. */
export interface ParsedDocument {
  readonly value: unknown;
  /** The position of the deepest part of `path` in the document. */
  place(path: readonly PropertyKey[]): TextPosition | undefined;
}

export interface SyntaxProblem extends Partial<TextPosition> {
  readonly message: string;
}

export type ParseResult = { readonly documents: readonly ParsedDocument[] } | { readonly problem: SyntaxProblem };

/** Parses a manifest file's text by its ending. Never throws for any text. */
export function parseDocuments(file: string, text: string): ParseResult {
  if (text.trim() === "") return { problem: { line: 1, column: 1, message: "the file is empty" } };
  const excess = limits.find(
    ({ most, pattern }) => text.length > most && !text.matchAll(pattern).drop(most).next().done,
  );
  if (excess !== undefined)
    return { problem: { line: 1, column: 1, message: `it holds more than ${excess.most} ${excess.of}` } };
  // A byte order mark is no column, and the TOML parser with positions does not accept it.
  const plain = text.replace(/^\uFEFF/, "");
  return file.endsWith(".toml") ? tomlDocument(plain) : yamlDocuments(plain);
}

/**
 * Limits of a text beside its size, since the parsers limit nesting (TOML) and the size that aliases expand to (YAML) but
 * not their own time, which grows with the square of these. A manifest of 100 slots holds fewer.
 */
const limits = [
  { most: 20_000, of: "line ends and punctuation marks", pattern: /[^\p{L}\p{M}\p{N}_ ]/gu },
  { most: 500, of: "aliases", pattern: /(?<![^\s[\]{},:?-])\*(?=[^\s[\]{},])/g },
];
/** As for a body of the API. Functions that walk a value recursively must not exhaust the stack. */
const mostDepth = 64;
const tooDeep = { problem: { line: 1, column: 1, message: `it is nested more than ${mostDepth} deep` } } as const;

function isNestedDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isNestedDeeper(inner, levels - 1));
}

function tomlDocument(text: string): ParseResult {
  let value: unknown;
  try {
    const parsed = parseToml(text, { maxDepth: mostDepth });
    if (isNestedDeeper(parsed, mostDepth)) return tooDeep;
    value = fromToml(parsed);
  } catch (error) {
    return { problem: tomlProblem(error, text) };
  }
  let places: Map<string, TextPosition> | undefined;
  return {
    documents: [
      {
        value,
        place(path) {
          if (path.length === 0) return { line: 1, column: 1 };
          places ??= tomlPlaces(text);
          return deepest(places, path);
        },
      },
    ],
  };
}

function deepest(places: ReadonlyMap<string, TextPosition>, path: readonly PropertyKey[]): TextPosition | undefined {
  for (let length = path.length; length > 0; length--) {
    const found = places.get(path.slice(0, length).map(String).join("\0"));
    if (found !== undefined) return found;
  }
  return { line: 1, column: 1 };
}

/** The position of every key of a TOML document, by path in the resources' spelling. */
function tomlPlaces(text: string): Map<string, TextPosition> {
  const places = new Map<string, TextPosition>();
  const note = (path: readonly string[], node: { loc: AST.SourceLocation }): void => {
    const key = pathFromToml(path).join("\0");
    if (!places.has(key)) places.set(key, { line: node.loc.start.line, column: node.loc.start.column + 1 });
  };
  const visit = (node: AST.TOMLContentNode | AST.TOMLTable | AST.TOMLKeyValue, base: readonly string[]): void => {
    if (node.type === "TOMLTable") {
      const path = node.resolvedKey.map(String);
      path.forEach((_part, index) => note(path.slice(0, index + 1), node.key));
      for (const pair of node.body) visit(pair, path);
    } else if (node.type === "TOMLKeyValue") {
      const parts = node.key.keys.map((key) => (key.type === "TOMLBare" ? key.name : key.value));
      parts.forEach((_part, index) => note([...base, ...parts.slice(0, index + 1)], node.key));
      visit(node.value, [...base, ...parts]);
    } else if (node.type === "TOMLArray") {
      node.elements.forEach((element, index) => {
        note([...base, String(index)], element);
        visit(element, [...base, String(index)]);
      });
    } else if (node.type === "TOMLInlineTable") {
      for (const pair of node.body) visit(pair, base);
    }
  };
  for (const top of parseTOML(text).body) for (const node of top.body) visit(node, []);
  return places;
}

const mostDocuments = 1000;

function yamlDocuments(text: string): ParseResult {
  const lines = new LineCounter();
  // The parser's own check for duplicate keys compares each with each.
  const parsed: Iterable<Document.Parsed> = parseAllDocuments(text, {
    lineCounter: lines,
    uniqueKeys: false,
    prettyErrors: false,
  });
  const documents: ParsedDocument[] = [];
  for (const document of parsed) {
    const [error] = document.errors;
    if (error !== undefined) {
      const conflict = conflictMarker(text);
      if (conflict !== undefined) return { problem: conflict };
      const { line, col } = lines.linePos(error.pos[0]);
      return { problem: { line, column: col, message: withoutText(error.message) } };
    }
    const repeated = repeatedKey(document.contents);
    if (repeated !== undefined) {
      const { line, col } = lines.linePos(repeated);
      return { problem: { line, column: col, message: "Map keys must be unique" } };
    }
    let value: unknown;
    try {
      value = document.toJS({ maxAliasCount: 100 });
    } catch (failure) {
      const message = failure instanceof Error ? withoutText(failure.message) : "invalid YAML";
      const at = failure instanceof ReferenceError ? lostAlias(document) : undefined;
      const { line, col } = lines.linePos(at ?? 0);
      return { problem: { line, column: col, message } };
    }
    if (isNestedDeeper(value, mostDepth)) return tooDeep;
    // An empty document between two separators declares nothing.
    if (value === null || value === undefined) continue;
    if (documents.length >= mostDocuments) {
      return { problem: { line: 1, column: 1, message: `it holds more than ${mostDocuments} documents` } };
    }
    documents.push({ value, place: (path) => yamlPlace(document.contents, path, lines) });
  }
  if (documents.length === 0) return { problem: { line: 1, column: 1, message: "the file holds no document" } };
  return { documents };
}

/** The offset of the first alias without an anchor before it. */
function lostAlias(document: Document.Parsed): number | undefined {
  let at: number | undefined;
  const anchors = new Set<string | undefined>();
  visit(document, {
    Node: (_key, node) => void anchors.add("anchor" in node ? node.anchor : undefined),
    Alias(_key, { source, range }) {
      if (anchors.has(source)) return undefined;
      at = range?.[0];
      return visit.BREAK;
    },
  });
  return at;
}

/** The offset of a key that its map has already. */
function repeatedKey(root: Node | null): number | undefined {
  const left: unknown[] = [root];
  while (left.length > 0) {
    const node = left.pop();
    if (isSeq(node)) for (const item of node.items) left.push(item);
    if (!isMap(node)) continue;
    const known = new Set<unknown>();
    for (const { key, value } of node.items) {
      left.push(value);
      if (!isScalar(key)) continue;
      if (known.has(key.value)) return key.range?.[0] ?? 0;
      known.add(key.value);
    }
  }
  return undefined;
}

/** A YAML error without its quotes of the text, which may be a secret. */
function withoutText(message: string): string {
  // The parser recurses as deep as the text is nested.
  if (message.startsWith("Maximum call stack")) return "it is nested too deeply";
  return message
    .replace(/(:| at line|\n)[^]*$/, "")
    .replace(/(escape sequence|directive|tag|alias|anchor) .*$/i, "$1")
    .trim();
}

function yamlPlace(root: Node | null, path: readonly PropertyKey[], lines: LineCounter): TextPosition | undefined {
  let node: unknown = root;
  let offset = root?.range?.[0] ?? 0;
  for (const part of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(part));
      if (pair === undefined) break;
      if (isScalar(pair.key)) offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      const item: unknown = node.items[Number(part)];
      if (item === undefined) break;
      node = item;
      if (isMap(item) || isSeq(item) || isScalar(item)) offset = item.range?.[0] ?? offset;
    } else break;
  }
  const { line, col } = lines.linePos(offset);
  return { line, column: col };
}
