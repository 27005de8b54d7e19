import { canonicalJson } from "../../lib/canonical.ts";
import { isRecord } from "../../lib/record.ts";
import { isFullManifest } from "../files/field-place.ts";
import { valuesOf, type Place } from "./place.ts";
import { partsOf } from "./yaml-edit.ts";

/**
 * A YAML file's text without one of its documents; the others stay unchanged, with their comments. Undefined where that
 * is impossible: the rest would have another meaning, or would be read differently alone.
 */
export function withoutDocument({ file, text, index }: Pick<Place, "file" | "text" | "index">): string | undefined {
  const before = valuesOf(file, text);
  if (before === undefined) return undefined;
  const wanted = before.filter((_value, at) => at !== index);
  // The only document of a file takes its name from the file unless it has its own.
  if (wanted.some((value) => !isRecord(value) || !isFullManifest(value))) return undefined;
  const parts = partsOf(text);
  // An empty document does not count for the reader, so that parts are tried instead of counted.
  for (const [gone] of parts.entries()) {
    const left = parts.filter((_part, at) => at !== gone).join("");
    const edited = gone === 0 ? headOf(text) + left.replace(/^---[ \t]*\r?\n/, "") : left;
    const said = valuesOf(file, edited);
    if (said !== undefined && canonicalJson(said) === canonicalJson(wanted)) return edited;
  }
  return undefined;
}

/** The comment at the head of a file, which an empty line divides from that of the first document. */
function headOf(text: string): string {
  return /^(?:#[^\n]*\n)+(?:[ \t]*\r?\n)+/.exec(text)?.[0] ?? "";
}
