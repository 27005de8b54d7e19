import { basename } from "node:path";
import { parseTOML, type AST } from "toml-eslint-parser";
import { isMap, isScalar, isSeq, parseAllDocuments, type Document } from "yaml";
import { configShape, tomlName } from "../../api/config.ts";
import { readManifests } from "./manifest.ts";
import { pathFromToml, pathToToml } from "./spelling.ts";

/** A key whose spelling has changed. */
interface Rename {
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

/**
 * A configuration file in this version's spelling: TOML keys in snake_case, YAML keys in camelCase. Comments, order and
 * everything else stay unchanged. The same text where there is nothing to do, or where a valid file would change its
 * meaning. Never throws.
 */
export function migrated(file: string, text: string): string {
  // A byte order mark stays; the TOML parser with positions does not accept it.
  if (text.startsWith("\uFEFF")) return `\uFEFF${migrated(file, text.slice(1))}`;
  let next: string;
  try {
    const isToml = file.endsWith(".toml");
    const renames = isToml ? tomlRenames(text, basename(file) === "berth.toml") : yamlRenames(text);
    next = renames.toSorted((a, b) => b.start - a.start).reduce(renamed, text);
  } catch {
    // `berth config validate` reports a text that does not parse.
    return text;
  }
  return next === text || isTheSame(file, text, next) ? next : text;
}

function renamed(text: string, { start, end, to }: Rename): string {
  return text.slice(0, start) + to + text.slice(end);
}

/** A valid file keeps its declarations; an invalid one has no further faults. */
function isTheSame(file: string, before: string, after: string): boolean {
  if (basename(file) === "berth.toml") {
    parseTOML(after);
    return true;
  }
  const [old, now] = [readManifests(file, before), readManifests(file, after)];
  const problems = (found: typeof old): number => found.flatMap(({ diagnostics }) => diagnostics).length;
  if (problems(old) > 0) return problems(now) <= problems(old);
  return problems(now) === 0 && now.every(({ specHash }, index) => specHash === old[index]?.specHash);
}

function tomlRenames(text: string, isSettings: boolean): Rename[] {
  const renames: Rename[] = [];
  const note = (base: readonly string[], keys: readonly (AST.TOMLBare | AST.TOMLQuoted)[]): string[] => {
    const path = [...base];
    for (const key of keys) {
      path.push(key.type === "TOMLBare" ? key.name : key.value);
      const wanted = isSettings ? settingName(path) : String(pathToToml(pathFromToml(path)).at(-1));
      if (key.type === "TOMLBare" && wanted !== key.name)
        renames.push({ start: key.range[0], end: key.range[1], to: wanted });
    }
    return path;
  };
  const visit = (node: AST.TOMLContentNode | AST.TOMLTable | AST.TOMLKeyValue, base: readonly string[]): void => {
    if (node.type === "TOMLTable") {
      note([], node.key.keys);
      for (const pair of node.body) visit(pair, node.resolvedKey.map(String));
    } else if (node.type === "TOMLKeyValue") visit(node.value, note(base, node.key.keys));
    else if (node.type === "TOMLArray") for (const element of node.elements) visit(element, base);
    else if (node.type === "TOMLInlineTable") for (const pair of node.body) visit(pair, base);
  };
  for (const top of parseTOML(text).body) for (const node of top.body) visit(node, []);
  return renames;
}

function settingName(path: readonly string[]): string {
  const [name = ""] = path;
  let key: keyof typeof configShape;
  for (key in configShape) if (path.length === 1 && key === name) return tomlName(key);
  return path.at(-1) ?? "";
}

function yamlRenames(text: string): Rename[] {
  const renames: Rename[] = [];
  const visit = (node: unknown, base: readonly string[]): void => {
    if (isSeq(node)) for (const item of node.items) visit(item, base);
    if (!isMap(node)) return;
    for (const { key, value } of node.items) {
      if (!isScalar(key) || typeof key.value !== "string") continue;
      const path = [...base, key.value];
      const wanted = pathFromToml(path).at(-1) ?? "";
      const [start = 0, end = 0] = key.range ?? [];
      if (wanted !== key.value && text.slice(start, end) === key.value) renames.push({ start, end, to: wanted });
      visit(value, path);
    }
  };
  const documents: Iterable<Document.Parsed> = parseAllDocuments(text);
  for (const { contents, errors } of documents) {
    const [error] = errors;
    if (error !== undefined) throw error;
    visit(contents, []);
  }
  return renames;
}
