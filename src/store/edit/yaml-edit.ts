import { isMap, isScalar, parseAllDocuments, type Document, type Node } from "yaml";
import type { FieldChange } from "./difference.ts";

/**
 * A YAML text with fields of one of its documents changed. A scalar that becomes another is replaced where it stands
 * and nothing else moves; only what adds or removes keys has the document written anew, comments included.
 */
export function editYaml(text: string, documentIndex: number, changes: readonly FieldChange[]): string {
  let edited = text;
  const structural: FieldChange[] = [];
  for (const change of changes) {
    const replaced = replaceScalar(edited, documentIndex, change);
    if (replaced === undefined) structural.push(change);
    else edited = replaced;
  }
  return structural.length === 0 ? edited : rewrite(edited, documentIndex, structural);
}

function documentsOf(text: string): Document.Parsed[] {
  const documents: Document.Parsed[] = [];
  for (const document of parseAllDocuments(text) satisfies Iterable<Document.Parsed>) documents.push(document);
  return documents;
}

/** Documents that say something, as the reader counts them. */
function documentAt(documents: readonly Document.Parsed[], index: number): Document.Parsed | undefined {
  return documents.filter((document) => document.toJS() !== null)[index];
}

function replaceScalar(text: string, index: number, { path, value }: FieldChange): string | undefined {
  if (value === undefined || typeof value === "object") return undefined;
  const document = documentAt(documentsOf(text), index);
  const node = nodeAt(document?.contents ?? null, path);
  if (!isScalar(node) || node.range === null || node.range === undefined) return undefined;
  if (node.type === "BLOCK_LITERAL" || node.type === "BLOCK_FOLDED" || node.tag !== undefined) return undefined;
  const [start, end] = node.range;
  const quote = text[start] === '"' ? '"' : text[start] === "'" ? "'" : "";
  return `${text.slice(0, start)}${scalarText(value, quote)}${text.slice(end)}`;
}

/** A scalar on one line, in the quotes that were there where it is a text. */
function scalarText(value: unknown, quote: string): string {
  if (typeof value !== "string") return String(value);
  if (quote === "'" && !value.includes("\n")) return `'${value.replaceAll("'", "''")}'`;
  const isPlain =
    /^[A-Za-z][A-Za-z0-9_./@-]*(:[A-Za-z0-9_./@-]+)*$/.test(value) &&
    !/^(y|n|yes|no|on|off|true|false|null)$/i.test(value);
  return quote === "" && isPlain ? value : JSON.stringify(value);
}

function nodeAt(root: Node | null, path: readonly string[]): unknown {
  let node: unknown = root;
  for (const part of path) {
    if (!isMap(node)) return undefined;
    node = node.items.find(({ key }) => isScalar(key) && String(key.value) === part)?.value;
  }
  return node;
}

function rewrite(text: string, index: number, changes: readonly FieldChange[]): string {
  const documents = documentsOf(text);
  const document = documentAt(documents, index);
  if (document === undefined) return text;
  for (const { path, value } of changes) {
    if (value === undefined) document.deleteIn(path);
    else document.setIn(path, document.createNode(value));
  }
  return documents
    .map((each) => each.toString({ lineWidth: 0, indentSeq: true, flowCollectionPadding: false }))
    .join("");
}
