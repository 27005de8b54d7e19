import { access, constants, mkdir, readFile, rm, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { ApiError } from "../api/errors.ts";
import type { Kind } from "../api/names.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { canonicalJson } from "../lib/canonical.ts";
import { errorCode } from "../lib/error-code.ts";
import { isRecord } from "../lib/record.ts";
import { Serial } from "../lib/serial.ts";
import { parseDocuments } from "./documents.ts";
import { differences, type FieldChange } from "./edit/difference.ts";
import { editToml, tomlText } from "./edit/toml-edit.ts";
import { editYaml } from "./edit/yaml-edit.ts";
import { listManifests } from "./listing.ts";
import { directoryOfKind, readManifests, type Declaration } from "./manifest.ts";
import type { ManifestChange, ManifestWriter } from "./writer.ts";

export interface ManifestWriterOptions {
  readonly configDir: string;
  /** `read_only` of the settings. */
  readonly isReadOnly: boolean;
}

/** Marks a directory that belongs to Git or to somebody else (DECISIONS 21). */
const marker = ".berth-read-only";

/** Writes the manifests of a configuration directory. One writer at a time per process; the files are the truth. */
export function openManifestWriter({ configDir, isReadOnly }: ManifestWriterOptions): ManifestWriter {
  const writes = new Serial();
  const readOnlyReason = async (): Promise<string | undefined> => {
    if (isReadOnly) return "read_only is set";
    if (await exists(join(configDir, marker))) return `${marker} is there`;
    try {
      await access((await exists(configDir)) ? configDir : join(configDir, ".."), constants.W_OK);
      return undefined;
    } catch {
      return "the directory is not writable";
    }
  };
  const guard = async (): Promise<void> => {
    const reason = await readOnlyReason();
    if (reason === undefined) return;
    throw new ApiError("config.read_only", { message: `the configuration belongs to somebody else: ${reason}` });
  };
  const write = async (file: string, text: string): Promise<void> => {
    try {
      await writeFileAtomic(file, text, { fsync: true });
    } catch (error) {
      const code = errorCode(error);
      if (code !== "EACCES" && code !== "EROFS" && code !== "EPERM") throw error;
      throw new ApiError("config.read_only", { message: "the configuration is not writable", cause: error });
    }
  };
  const change = async (found: Place, next: (spec: Spec) => Spec, labels?: Labels): Promise<boolean> => {
    const text = await readFile(found.file, "utf8");
    const before = specOf(found, text);
    const changes = differences(before, next(before)).map((each) => at(found, each));
    if (labels !== undefined) {
      const base = found.isManifest ? ["metadata", "labels"] : ["labels"];
      changes.push(
        ...differences(found.declaration.labels, labels).map((each) => ({ ...each, path: [...base, ...each.path] })),
      );
    }
    if (changes.length === 0) return false;
    const edited = found.file.endsWith(".toml") ? editToml(text, changes) : editYaml(text, found.index, changes);
    checkResult(configDir, found, edited, next(before));
    await write(found.file, edited);
    return true;
  };
  const create = async (kind: Kind, name: string, { spec, labels }: ManifestChange): Promise<string> => {
    const directory = join(configDir, directoryOfKind[kind]);
    const file = join(directory, `${name}.toml`);
    await mkdir(directory, { recursive: true });
    const text = tomlText({ ...spec, ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { labels }) });
    const [declaration] = readManifests(file, text);
    if (declaration?.spec === undefined) throw invalid(configDir, declaration);
    if (await exists(file))
      throw new ApiError("slot.already_exists", { message: `${relative(configDir, file)} exists` });
    await write(file, text);
    return file;
  };
  return {
    readOnlyReason,
    create: (kind, name, given) =>
      writes.run(async () => {
        await guard();
        if ((await find(configDir, kind, name)) !== undefined)
          throw new ApiError("slot.already_exists", { message: `${name} is declared already` });
        return await create(kind, name, given);
      }),
    replace: (kind, name, given) =>
      writes.run(async () => {
        await guard();
        const found = await find(configDir, kind, name);
        if (found === undefined) {
          await create(kind, name, given);
          return "created";
        }
        return (await change(found, () => ({ ...given.spec }), given.labels)) ? "changed" : "unchanged";
      }),
    set: (kind, name, path, value) =>
      writes.run(async () => {
        await guard();
        const found = await find(configDir, kind, name);
        if (found === undefined) {
          throw new ApiError("slot.not_found", { message: `${name} has no manifest: it cannot be written into` });
        }
        await change(found, (spec) => withField(spec, path, value));
      }),
    remove: (kind, name) =>
      writes.run(async () => {
        await guard();
        const found = await find(configDir, kind, name);
        if (found === undefined) return false;
        if (found.count > 1) {
          throw new ApiError("config.read_only", {
            message: `${relative(configDir, found.file)} declares more than ${name}: remove it there`,
          });
        }
        await rm(found.file);
        return true;
      }),
  };
}

type Spec = Readonly<Record<string, unknown>>;
type Labels = Readonly<Record<string, string>>;

/** Where a resource is declared. */
interface Place {
  readonly file: string;
  readonly declaration: Declaration;
  /** Its number among the documents of the file, and how many there are. */
  readonly index: number;
  readonly count: number;
  readonly isManifest: boolean;
}

async function find(configDir: string, kind: Kind, name: string): Promise<Place | undefined> {
  const listing = await listManifests(configDir, Object.values(directoryOfKind));
  for (const file of listing.files.keys()) {
    const text = await readFile(file, "utf8");
    const declarations = readManifests(file, text);
    const index = declarations.findIndex((each) => each.kind === kind && each.name === name);
    const declaration = declarations[index];
    if (declaration === undefined) continue;
    const value = valueOf(file, text, index);
    const isManifest = "apiVersion" in value || "kind" in value || ("spec" in value && "metadata" in value);
    return { file, declaration, index, count: declarations.length, isManifest };
  }
  return undefined;
}

function valueOf(file: string, text: string, index: number): Record<string, unknown> {
  const parsed = parseDocuments(file, text);
  const value = "documents" in parsed ? parsed.documents[index]?.value : undefined;
  return isRecord(value) ? value : {};
}

/** What the file itself says of the spec, without defaults. */
function specOf({ file, index, isManifest }: Place, text: string): Spec {
  const value = valueOf(file, text, index);
  if (isManifest) return isRecord(value["spec"]) ? value["spec"] : {};
  const { labels: _labels, annotations: _annotations, ...spec } = value;
  return spec;
}

function at({ isManifest }: Place, { path, value }: FieldChange): FieldChange {
  return { path: isManifest ? ["spec", ...path] : path, value };
}

function withField(spec: Spec, [first = "", ...rest]: readonly string[], value: unknown): Spec {
  if (rest.length === 0) return { ...spec, [first]: value };
  const inner = spec[first];
  return { ...spec, [first]: withField(isRecord(inner) ? inner : {}, rest, value) };
}

/** The edited text must be valid and say what was wanted: an edit that fails halfway is never written. */
function checkResult(configDir: string, place: Place, text: string, wanted: Spec): void {
  const declaration = readManifests(place.file, text)[place.index];
  if (declaration?.spec === undefined) throw invalid(configDir, declaration);
  if (canonicalJson(specOf(place, text)) === canonicalJson(wanted)) return;
  throw new ApiError("config.invalid", {
    message: `${relative(configDir, place.file)} is written in a way that cannot be edited here: change it by hand`,
    details: { file: relative(configDir, place.file) },
  });
}

function invalid(configDir: string, declaration: Declaration | undefined): ApiError {
  const [first] = declaration?.diagnostics ?? [];
  if (first === undefined) return new ApiError("config.invalid");
  const { file, line, column, path, message } = first;
  return new ApiError("config.invalid", {
    message,
    details: { file: relative(configDir, file), line: line ?? null, column: column ?? null, path: path ?? [], message },
  });
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  );
}
