import { setImmediate } from "node:timers/promises";
import { directoryOfKind } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";
import { parseDocuments } from "./documents.ts";
import { placeOfField } from "./field-place.ts";
import { listManifests } from "./listing.ts";
import { manifestTextOrNothing } from "./manifest-text.ts";
import { readManifests, type Declaration } from "./manifest.ts";
import type { TextPosition } from "./text-position.ts";

/** A valid slot of a manifest, with the place of its model. */
export interface DeclaredSlot extends Partial<TextPosition> {
  readonly name: string;
  readonly file: string;
  readonly spec: SlotSpec;
}

/** The slots that texts declare, by file name; without those whose manifest is wrong. */
export function slotsInTexts(files: Readonly<Record<string, string>>): readonly DeclaredSlot[] {
  return Object.entries(files).flatMap(([file, text]) => {
    const parsed = parseDocuments(file, text);
    const documents = "documents" in parsed ? parsed.documents : [];
    return readManifests(file, text).flatMap(({ name, spec, at }, index): DeclaredSlot[] => {
      if (!isSlot(spec)) return [];
      return [{ name, file, spec, ...(placeOfField(documents[index], ["model", "default"]) ?? at) }];
    });
  });
}

/** The same of a configuration directory. A file that is not read is left out. */
export async function slotsInDirectory(configDir: string): Promise<readonly DeclaredSlot[]> {
  const { files } = await listManifests(configDir, [directoryOfKind.Slot]);
  const slots: DeclaredSlot[] = [];
  for (const file of files.keys()) {
    // A gateway reads them between its requests.
    await setImmediate();
    const text = manifestTextOrNothing(file);
    if (text !== undefined) slots.push(...slotsInTexts({ [file]: text }));
  }
  return slots;
}

function isSlot(spec: Declaration["spec"]): spec is SlotSpec {
  return spec !== undefined && "aliases" in spec;
}
