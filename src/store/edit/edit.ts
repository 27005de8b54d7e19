import { canonicalJson } from "../../lib/canonical.ts";
import { isRecord } from "../../lib/record.ts";
import { withChanges, type FieldChange } from "./difference.ts";
import { valuesOf } from "./place.ts";
import { editToml } from "./toml-edit.ts";
import { editYaml } from "./yaml-edit.ts";

/**
 * The text with fields of its document `index` changed, comments kept; undefined when it is written in a way that
 * does not allow it, such as a value shared by an anchor. The result was parsed again and has the expected value.
 */
export function edit(file: string, text: string, index: number, changes: readonly FieldChange[]): string | undefined {
  const wanted = valuesOf(file, text)?.map((value, at) => (at === index ? withChanges(value, changes) : value));
  try {
    const edited = file.endsWith(".toml") ? editToml(text, changes) : editYaml(text, index, changes);
    const said = valuesOf(file, edited);
    return wanted !== undefined && said !== undefined && canonicalJson(said) === canonicalJson(wanted)
      ? edited
      : undefined;
  } catch {
    // The parsers throw on a text that an edit has broken.
    return undefined;
  }
}

/** The first field that TOML cannot express; undefined: it can express all. */
export function beyondToml(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (value === null) return path;
  const fields = isRecord(value) || Array.isArray(value) ? Object.entries(value) : [];
  for (const [key, field] of fields) {
    const found = beyondToml(field, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}
