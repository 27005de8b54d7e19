import { Parser } from "yaml";
import { canonicalJson } from "../../lib/canonical.ts";
import { isRecord } from "../../lib/record.ts";
import { isFullManifest } from "../field-place.ts";
import { valuesOf, type Place } from "./place.ts";

/**
 * A YAML file's text without one of its documents; the others stay as they are, with their comments. Undefined where that
 * cannot be done so: what is left would not say what it said, or would be read as something else alone.
 */
export function withoutDocument({ file, text, index }: Pick<Place, "file" | "text" | "index">): string | undefined {
  const before = valuesOf(file, text);
  if (before === undefined) return undefined;
  const wanted = before.filter((_value, at) => at !== index);
  // A document that is the only one takes its name from the file unless it says it itself.
  if (wanted.some((value) => !isRecord(value) || !isFullManifest(value))) return undefined;
  const parts = partsOf(text);
  // An empty document is none to the reader, so that parts are tried and not counted.
  for (const [gone] of parts.entries()) {
    const left = parts.filter((_part, at) => at !== gone).join("");
    const edited = gone === 0 ? left.replace(/^---[ \t]*\r?\n/, "") : left;
    const said = valuesOf(file, edited);
    if (said !== undefined && canonicalJson(said) === canonicalJson(wanted)) return edited;
  }
  return undefined;
}

/** The text cut in front of every `---` that begins a document. */
function partsOf(text: string): string[] {
  const starts = [0];
  for (const token of new Parser().parse(text)) {
    if (token.type !== "document") continue;
    const mark = token.start.find(({ type }) => type === "doc-start");
    if (mark !== undefined && mark.offset > 0) starts.push(mark.offset);
  }
  return starts.map((start, at) => text.slice(start, starts[at + 1]));
}
