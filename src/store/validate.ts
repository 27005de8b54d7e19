import { readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { loadConfig } from "../api/config.ts";
import { parseBerthToml, readBerthToml } from "./berth-toml.ts";
import { parseDocuments } from "./documents.ts";
import { listManifests } from "./listing.ts";
import { directoryOfKind, readManifests, type Declaration } from "./manifest.ts";
import { camelCase } from "./spelling.ts";
import type { Diagnostic } from "./store.ts";
import type { SlotSpec } from "../api/slot.ts";

/** Texts by path that are looked at as if they were saved. */
type Edits = ReadonlyMap<string, string>;

/** Every problem of a configuration directory, without a running service. Empty: it can be taken as it is. */
export async function validateDirectory(configDir: string, edits: Edits = new Map()): Promise<readonly Diagnostic[]> {
  const listing = await listManifests(configDir, Object.values(directoryOfKind));
  const diagnostics: Diagnostic[] = listing.problems.map(({ message, file }) => ({
    reason: "Unreadable",
    file: file ?? configDir,
    message,
  }));
  diagnostics.push(...(await settingsProblems(configDir, edits)));
  const declarations: Declaration[] = [];
  const manifests = [...edits.keys()].filter((file) => dirname(file) !== configDir);
  for (const file of new Set([...listing.files.keys(), ...manifests])) {
    const found = readManifests(file, edits.get(file) ?? (await readFile(file, "utf8")));
    declarations.push(...found);
    diagnostics.push(...found.flatMap((declaration) => declaration.diagnostics));
  }
  return [...diagnostics, ...clashes(declarations)].toSorted(byPlace);
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
  const text = problems.length === 0 ? "" : (edited ?? (await readFile(file, "utf8").catch(() => "")));
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

/** One name, port or alias claimed twice. */
function clashes(declarations: readonly Declaration[]): Diagnostic[] {
  const owners = new Map<string, Declaration>();
  const found: Diagnostic[] = [];
  const claim = (what: string, declaration: Declaration, path?: string[]): void => {
    const owner = owners.get(what);
    if (owner === undefined) owners.set(what, declaration);
    else {
      const message = `${what} is already claimed by ${basename(owner.file)}`;
      found.push({
        reason: "DuplicateResource",
        file: declaration.file,
        ...(path === undefined ? {} : { path }),
        message,
      });
    }
  };
  for (const declaration of declarations) claim(`${declaration.kind} ${declaration.name}`, declaration);
  const slots = new Set(declarations.filter(({ kind }) => kind === "Slot").map(({ name }) => name));
  for (const declaration of declarations) {
    const { spec } = declaration;
    if (spec === undefined || !isSlot(declaration, spec)) continue;
    if (spec.port !== undefined) claim(`port ${spec.port}`, declaration, ["port"]);
    for (const alias of spec.aliases) {
      if (slots.has(alias)) {
        const message = `${alias} is the name of a slot`;
        found.push({ reason: "DuplicateResource", file: declaration.file, path: ["aliases"], message });
      } else claim(`alias ${alias}`, declaration, ["aliases"]);
    }
  }
  return found;
}

function isSlot(declaration: Declaration, spec: NonNullable<Declaration["spec"]>): spec is SlotSpec {
  return declaration.kind === "Slot" && "aliases" in spec;
}
