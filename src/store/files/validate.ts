import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { directoryOfKind } from "../../api/names.ts";
import { loadConfig } from "../../api/config.ts";
import { readSmallText } from "../../lib/small-file.ts";
import { parseBerthToml, readBerthToml } from "./berth-toml.ts";
import { parseDocuments, type ParsedDocument, type ParseResult } from "./documents.ts";
import { listManifests } from "./listing.ts";
import { manifestLimitBytes } from "./manifest-limit.ts";
import { readManifests, type Declaration } from "./manifest.ts";
import { problemsOf, readManifestText, unsafeDirectories, whyUnread } from "./manifest-text.ts";
import { describePlace, placeOfField } from "./field-place.ts";
import type { TextPosition } from "./text-position.ts";
import { camelCase } from "./spelling.ts";
import type { Diagnostic } from "../store.ts";
import type { SlotSpec } from "../../api/slot.ts";

/** Texts by path that are checked as if they were saved. */
type Edits = ReadonlyMap<string, string>;

export interface ValidateOptions {
  readonly edits?: Edits;
  /**
   * The directory is no service's, such as a checkout in a pipeline: who may write there is not judged. Default: it is
   * judged as the operator does.
   */
  readonly isElsewhere?: boolean;
}

/** Every problem of a configuration directory, without a running service. Empty: the directory is valid. */
export async function validateDirectory(
  configDir: string,
  { edits = new Map(), isElsewhere = false }: ValidateOptions = {},
): Promise<readonly Diagnostic[]> {
  const listing = await listManifests(configDir, Object.values(directoryOfKind));
  const unsafe = isElsewhere ? [] : problemsOf(unsafeDirectories(listing.directories.keys()));
  const diagnostics: Diagnostic[] = [...listing.problems, ...unsafe].map(({ message, file }) => ({
    reason: "Unreadable",
    file: file ?? configDir,
    message,
  }));
  diagnostics.push(...(await settingsProblems(configDir, edits)));
  const declarations: Declared[] = [];
  const manifests = [...edits.keys()].filter((file) => dirname(file) !== configDir);
  for (const file of new Set([...listing.files.keys(), ...manifests])) {
    // A gateway validates between its requests.
    await setImmediate();
    let text = edits.get(file);
    try {
      text ??= isElsewhere ? await readSmallText(file, manifestLimitBytes) : readManifestText(file);
    } catch (error) {
      diagnostics.push({ reason: "Unreadable", file, message: whyUnread(error) });
      continue;
    }
    const documentAt = documentsOf(file, text);
    for (const [index, declaration] of readManifests(file, text).entries()) {
      if (declaration.isForeign === true) continue;
      declarations.push({ declaration, document: () => documentAt(index) });
      diagnostics.push(...declaration.diagnostics);
    }
  }
  return [...diagnostics, ...clashes(declarations), ...crowdedGroups(declarations)].toSorted(byPlace);
}

/** The problems of unsaved manifests, by file name: of each file alone. */
export function validateTexts(files: Readonly<Record<string, string>>): readonly Diagnostic[] {
  return Object.entries(files).flatMap(([file, text]) =>
    readManifests(file, text).flatMap(({ diagnostics }) => diagnostics),
  );
}

function byPlace(a: Diagnostic, b: Diagnostic): number {
  if (a.file !== b.file) return a.file < b.file ? -1 : 1;
  return (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0);
}

async function settingsProblems(configDir: string, edits: Edits): Promise<Diagnostic[]> {
  const file = join(configDir, "berth.toml");
  const edited = edits.get(file);
  const { values, diagnostics } = edited === undefined ? await readBerthToml(configDir) : parseBerthToml(file, edited);
  const places = { isRoot: true, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined };
  const { problems } = loadConfig({}, values, places);
  const text = problems.length === 0 ? "" : (edited ?? (await readSmallText(file, manifestLimitBytes).catch(() => "")));
  const parsed = parseDocuments(file, text);
  const [document] = "documents" in parsed ? parsed.documents : [];
  return [
    ...diagnostics,
    ...problems.map(({ key, message }): Diagnostic => {
      const name = key.replace(/^berth\.toml /, "");
      return { reason: "InvalidSpec", file, ...document?.place([camelCase(name)]), path: [name], message };
    }),
  ];
}

interface Declared {
  readonly declaration: Declaration;
  /** For the positions of its fields. */
  readonly document: () => ParsedDocument | undefined;
}

/** The documents of a file by number, parsed again at the first use and kept: only a problem needs a position. */
function documentsOf(file: string, text: string): (index: number) => ParsedDocument | undefined {
  let parsed: ParseResult | undefined;
  return (index) => {
    parsed ??= parseDocuments(file, text);
    return "documents" in parsed ? parsed.documents[index] : undefined;
  };
}

type Field = "name" | readonly (string | number)[];

/** One name, port or alias declared twice: reported at the later declaration, by path, with the place of the first. */
function clashes(declarations: readonly Declared[]): Diagnostic[] {
  const owners = new Map<string, { readonly by: Declared; readonly field: Field }>();
  const found: Diagnostic[] = [];
  const placeOf = ({ declaration, document }: Declared, field: Field): TextPosition | undefined =>
    field === "name" ? declaration.at : placeOfField(document(), field);
  const report = (by: Declared, field: Field, message: string): void => {
    const { file } = by.declaration;
    const path = field === "name" ? {} : { path: field.slice(0, 1) };
    found.push({ reason: "DuplicateResource", file, ...placeOf(by, field), ...path, message });
  };
  const claim = (what: string, by: Declared, field: Field): void => {
    const owner = owners.get(what);
    if (owner === undefined) owners.set(what, { by, field });
    else {
      const place = describePlace(owner.by.declaration.file, placeOf(owner.by, owner.field));
      report(by, field, `${what} is already defined at ${place}; change or delete one of the two`);
    }
  };
  for (const by of declarations) claim(`${by.declaration.kind} ${by.declaration.name}`, by, "name");
  for (const by of declarations) {
    const { spec } = by.declaration;
    if (spec === undefined || !isSlot(by.declaration, spec)) continue;
    if (spec.port !== undefined) claim(`port ${spec.port}`, by, ["port"]);
    for (const [index, alias] of spec.aliases.entries()) {
      const slot = owners.get(`Slot ${alias}`);
      if (slot === undefined) claim(`alias ${alias}`, by, ["aliases", index]);
      else {
        const place = describePlace(slot.by.declaration.file, placeOf(slot.by, "name"));
        report(by, ["aliases", index], `${alias} is the name of the slot at ${place}`);
      }
    }
  }
  return found;
}

/** A group with fewer places than slots that never leave them: some of these could never be loaded. */
function crowdedGroups(declarations: readonly Declared[]): Diagnostic[] {
  const fixed = declarations.flatMap(({ declaration }) => {
    const { spec, name } = declaration;
    if (spec === undefined || !isSlot(declaration, spec) || !spec.enabled) return [];
    return spec.load === "always" || spec.pinned ? [{ name, group: spec.group }] : [];
  });
  return declarations.flatMap(({ declaration: { kind, name, file, spec, at }, document }): Diagnostic[] => {
    if (kind !== "SlotGroup" || spec === undefined || !("maxWaitSeconds" in spec)) return [];
    const { slots = 1, memoryBytes, device } = spec.budget;
    const members = fixed.filter(({ group }) => group === name).map((slot) => slot.name);
    if (memoryBytes !== undefined || device !== undefined || members.length <= slots) return [];
    const path = ["budget", "slots"];
    const message = `has ${slots} ${slots === 1 ? "place" : "places"} for ${members.length} slots that never leave for another, being pinned or always loaded: ${members.toSorted().join(", ")}`;
    const place = placeOfField(document(), path) ?? at;
    return [{ reason: "InvalidSpec", file, ...place, path, message }];
  });
}

function isSlot(declaration: Declaration, spec: NonNullable<Declaration["spec"]>): spec is SlotSpec {
  return declaration.kind === "Slot" && "aliases" in spec;
}
