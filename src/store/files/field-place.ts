import { basename, dirname } from "node:path";
import { isRecord } from "../../lib/record.ts";
import { parseDocuments } from "./documents.ts";
import type { TextPosition } from "./text-position.ts";

/** Whether a document is a whole manifest; else it is a bare spec. */
export function isFullManifest(document: Readonly<Record<string, unknown>>): boolean {
  return "apiVersion" in document || "kind" in document || ("spec" in document && "metadata" in document);
}

/**
 * The position of a field of a spec, or with `name` of the resource's name, in the file's `index`-th document. Parses
 * again: for messages to people, not for every read. Undefined when the text does not parse.
 */
export function placeOfField(
  file: string,
  text: string,
  index: number,
  field: "name" | readonly PropertyKey[],
): TextPosition | undefined {
  const parsed = parseDocuments(file, text);
  const document = "documents" in parsed ? parsed.documents[index] : undefined;
  if (document === undefined) return undefined;
  const isFull = isRecord(document.value) && isFullManifest(document.value);
  if (field === "name") return document.place(isFull ? ["metadata", "name"] : []);
  return document.place(isFull ? ["spec", ...field] : field);
}

/** A place within a configuration directory, e.g. `slots/a.toml:3:1`. */
export function describePlace(file: string, place: TextPosition | undefined): string {
  const shown = `${basename(dirname(file))}/${basename(file)}`;
  return place === undefined ? shown : `${shown}:${place.line}:${place.column}`;
}
