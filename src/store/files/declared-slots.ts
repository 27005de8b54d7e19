import { directoryOfKind } from "../../api/names.ts";
import type { SlotSpec } from "../../api/slot.ts";
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
  return Object.entries(files).flatMap(([file, text]) =>
    readManifests(file, text).flatMap((declaration, index): DeclaredSlot[] => {
      const { name, spec } = declaration;
      if (!isSlot(spec)) return [];
      const place = placeOfField(file, text, index, ["model", "default"]) ?? placeOfField(file, text, index, "name");
      return [{ name, file, spec, ...place }];
    }),
  );
}

/** The same of a configuration directory. A file that is not read is left out. */
export async function slotsInDirectory(configDir: string): Promise<readonly DeclaredSlot[]> {
  const { files } = await listManifests(configDir, [directoryOfKind.Slot]);
  const slots: DeclaredSlot[] = [];
  for (const file of files.keys()) {
    const text = manifestTextOrNothing(file);
    if (text !== undefined) slots.push(...slotsInTexts({ [file]: text }));
  }
  return slots;
}

function isSlot(spec: Declaration["spec"]): spec is SlotSpec {
  return spec !== undefined && "aliases" in spec;
}
