import { basename, dirname } from "node:path";
import { isRecord } from "../../lib/record.ts";
import type { ParsedDocument } from "./documents.ts";
import type { TextPosition } from "./text-position.ts";

/** Whether a document is a whole manifest; else it is a bare spec. */
export function isFullManifest(document: Readonly<Record<string, unknown>>): boolean {
  return "apiVersion" in document || "kind" in document || ("spec" in document && "metadata" in document);
}

/** The position of a field of the spec in a document. */
export function placeOfField(
  document: ParsedDocument | undefined,
  field: readonly PropertyKey[],
): TextPosition | undefined {
  if (document === undefined) return undefined;
  const { value } = document;
  return document.place(isRecord(value) && isFullManifest(value) ? ["spec", ...field] : field);
}

/** A place within a configuration directory, e.g. `slots/a.toml:3:1`. */
export function describePlace(file: string, place: TextPosition | undefined): string {
  const shown = `${basename(dirname(file))}/${basename(file)}`;
  return place === undefined ? shown : `${shown}:${place.line}:${place.column}`;
}
