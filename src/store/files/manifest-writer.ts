import { createHash } from "node:crypto";
import { access, constants, mkdir, readFile, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { ApiError } from "../../api/errors.ts";
import { directoryOfKind, type Kind } from "../../api/names.ts";
import { rewriteFile, writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { Serial } from "../../lib/serial.ts";
import { withField } from "../edit/difference.ts";
import { beyondToml, edit } from "../edit/edit.ts";
import { changesAt, findPlace, valuesOf, type Place } from "../edit/place.ts";
import { withoutDocument } from "../edit/documents-edit.ts";
import { tomlText } from "../edit/toml-edit.ts";
import { yamlText } from "../edit/yaml-text.ts";
import { manifestLimitBytes } from "./manifest-limit.ts";
import { readManifests, type Declaration } from "./manifest.ts";
import type { RemovalRecorder } from "../state/removals.ts";
import type { ManifestChange, ManifestWriter, Written } from "./writer.ts";

export interface ManifestWriterOptions {
  readonly configDir: string;
  /** `read_only` of the settings. */
  readonly isReadOnly: boolean;
  readonly removals: RemovalRecorder;
}

/** Marks a directory that belongs to Git or to another owner (DECISIONS 21). */
const marker = ".berth-read-only";
/** How often an edit is repeated because another process has written the file meanwhile. */
const tries = 5;

type Spec = Readonly<Record<string, unknown>>;

/**
 * Writes the manifests of a configuration directory. One writer at a time per process; the files are the source of
 * truth.
 */
export function openManifestWriter({ configDir, isReadOnly, removals }: ManifestWriterOptions): ManifestWriter {
  const writes = new Serial();
  const readOnlyReason = async (): Promise<string | undefined> => {
    if (isReadOnly) return "read_only is set";
    if ((await kindOf(join(configDir, marker))) !== undefined) return `${marker} is there`;
    return (await isWritable(configDir)) ? undefined : "the directory is not writable";
  };
  /** Runs `task` where writing is allowed, after all earlier tasks. */
  const write = async <T>(task: () => Promise<T>): Promise<T> =>
    await writes.run(async () => {
      const reason = await readOnlyReason();
      if (reason !== undefined) throw readOnly(`the configuration belongs to another owner: ${reason}`);
      try {
        return await task();
      } catch (error) {
        const isDenied = ["EACCES", "EROFS", "EPERM", "ENOTDIR", "EEXIST", "ELOOP"].includes(errorCode(error) ?? "");
        throw isDenied ? readOnly("the configuration is not writable", error) : error;
      }
    });
  const create = async (kind: Kind, name: string, { spec, labels }: ManifestChange): Promise<Written> => {
    const directory = join(configDir, directoryOfKind[kind]);
    const content = { ...spec, ...(labels === undefined || Object.keys(labels).length === 0 ? {} : { labels }) };
    const isToml = beyondToml(content) === undefined;
    const file = join(directory, `${name}.${isToml ? "toml" : "yaml"}`);
    const text = isToml ? tomlText(content) : yamlText(content);
    refuseLarge(configDir, file, text);
    const [declaration] = readManifests(file, text);
    if (declaration?.spec === undefined) throw invalid(configDir, file, declaration);
    await mkdir(directory, { recursive: true });
    if ((await kindOf(file)) !== undefined)
      throw new ApiError("slot.already_exists", { message: `${relative(configDir, file)} exists` });
    await writeFileAtomic(file, text, { fsync: true });
    await removals.withdraw(kind, name);
    return { outcome: "created", specHash: declaration.specHash };
  };
  /** Resolves with undefined when it is not declared. */
  const change = async (
    kind: Kind,
    name: string,
    next: (spec: Spec) => Spec,
    { labels, over }: Pick<ManifestChange, "labels" | "over"> = {},
  ): Promise<Written | undefined> => {
    for (let left = tries; left > 0; left -= 1) {
      const found = await findPlace(configDir, kind, name);
      if (over !== undefined && (found === undefined || textHash(found.text) !== over))
        throw changed(found === undefined ? name : relative(configDir, found.file));
      if (found === undefined) return undefined;
      const { text, specHash } = edited(configDir, found, next(found.spec), labels);
      if (text === found.text) return { outcome: "unchanged", specHash };
      if ((await readFile(found.file, "utf8")) !== found.text) continue;
      await rewriteFile(found.file, text);
      return { outcome: "changed", specHash };
    }
    throw new ApiError("config.read_only", { message: `another process keeps writing the manifest of ${name}` });
  };
  /** Where it is declared, and the spec that the text would declare there, alone. */
  const sourceWith = async (kind: Kind, name: string, text: string): Promise<{ place: Place; spec: Spec }> => {
    const place = await findPlace(configDir, kind, name);
    if (place === undefined) throw new ApiError("slot.not_found", { message: `${name} has no manifest` });
    refuseLarge(configDir, place.file, text);
    const [declaration, ...others] = readManifests(place.file, text);
    if (declaration?.spec === undefined) throw invalid(configDir, place.file, declaration);
    if (place.count > 1 || others.length > 0 || declaration.kind !== kind || declaration.name !== name) {
      const message = `must declare ${name} and nothing else to be written here: change it by hand`;
      throw invalid(configDir, place.file, undefined, { path: [], message });
    }
    return { place, spec: recordOf(declaration.spec) };
  };
  return {
    readOnlyReason,
    create: (kind, name, given) =>
      write(async () => {
        if ((await findPlace(configDir, kind, name)) !== undefined)
          throw new ApiError("slot.already_exists", { message: `${name} is declared already` });
        return await create(kind, name, given);
      }),
    replace: (kind, name, given) =>
      write(async () => (await change(kind, name, () => given.spec, given)) ?? (await create(kind, name, given))),
    set: (kind, name, path, value) =>
      write(async () => {
        const written = await change(kind, name, (spec) => recordOf(withField(spec, path, value)));
        if (written === undefined)
          throw new ApiError("slot.not_found", { message: `${name} has no manifest: it cannot be written into` });
      }),
    source: async (kind, name) => {
      const found = await findPlace(configDir, kind, name);
      if (found === undefined) return undefined;
      const spec = recordOf(found.declaration.spec ?? found.spec);
      return { file: relative(configDir, found.file), text: found.text, hash: textHash(found.text), spec };
    },
    specOf: async (kind, name, text) => (await sourceWith(kind, name, text)).spec,
    writeSource: (kind, name, { text, hash }) =>
      write(async () => {
        const { place } = await sourceWith(kind, name, text);
        if (textHash(place.text) !== hash) throw changed(relative(configDir, place.file));
        if (text !== place.text) await rewriteFile(place.file, text);
      }),
    specHash: async (kind, name) => (await findPlace(configDir, kind, name))?.declaration.specHash,
    remove: (kind, name, { isKnown }) =>
      write(async () => {
        const found = await findPlace(configDir, kind, name);
        if (found === undefined) {
          if (!isKnown || removals.has(kind, name)) return false;
          await removals.put(kind, name);
          return true;
        }
        const rest = found.count > 1 ? withoutDocument(found) : undefined;
        if (found.count > 1 && rest === undefined)
          throw readOnly(`${relative(configDir, found.file)} declares more than ${name}: remove it there`);
        await removals.put(kind, name);
        try {
          await (rest === undefined ? rm(found.file) : rewriteFile(found.file, rest));
        } catch (error) {
          await removals.withdraw(kind, name);
          throw error;
        }
        return true;
      }),
  };
}

/** The file's text with this spec: valid, and with the expected value. Throws ApiError `config.invalid`. */
function edited(
  configDir: string,
  place: Place,
  spec: Spec,
  labels: ManifestChange["labels"],
): { readonly text: string; readonly specHash: string } {
  const { file, text, index, declaration } = place;
  if (valuesOf(file, text) === undefined) throw invalid(configDir, file, declaration);
  const changes = changesAt(place, spec, labels);
  if (changes.length === 0) return { text, specHash: declaration.specHash };
  const unsaid = file.endsWith(".toml") ? beyondToml(spec) : undefined;
  if (unsaid !== undefined)
    throw invalid(configDir, file, undefined, { path: unsaid, message: "TOML has no null: use a YAML manifest" });
  const after = edit(file, text, index, changes);
  if (after === undefined) {
    const [first] = changes;
    const message = "it is written in a way that cannot be edited here: change it by hand";
    throw invalid(configDir, file, undefined, { path: first?.path ?? [], message });
  }
  refuseLarge(configDir, file, after);
  const result = readManifests(file, after)[index];
  if (result?.spec === undefined) throw invalid(configDir, file, result);
  return { text: after, specHash: result.specHash };
}

/** A file above the limit of reading must not be written. */
function refuseLarge(configDir: string, file: string, text: string): void {
  if (Buffer.byteLength(text) <= manifestLimitBytes) return;
  throw invalid(configDir, file, undefined, {
    path: [],
    message: "would be larger than 1 MiB, the limit of a manifest",
  });
}

function textHash(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function recordOf(value: unknown): Spec {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

/** With file, line, column and path of the first problem. */
function invalid(
  configDir: string,
  file: string,
  declaration: Declaration | undefined,
  problem: { readonly path: readonly string[]; readonly message: string } = { path: [], message: "is invalid" },
): ApiError {
  const { line, column, path, message } = {
    line: undefined,
    column: undefined,
    ...problem,
    ...declaration?.diagnostics[0],
  };
  const place = relative(configDir, file);
  return new ApiError("config.invalid", {
    message: diagnosticLine({ file: place, line, column, message }),
    details: { file: place, line: line ?? null, column: column ?? null, path: path ?? [], message },
  });
}

function changed(what: string): ApiError {
  return new ApiError("config.changed", { message: `${what} was changed meanwhile: nothing was written` });
}

function readOnly(message: string, cause?: unknown): ApiError {
  return new ApiError("config.read_only", { message, cause });
}

/** Decided by the nearest existing directory: missing directories are created in it. */
async function isWritable(directory: string): Promise<boolean> {
  const kind = await kindOf(directory);
  if (kind === undefined && dirname(directory) !== directory) return await isWritable(dirname(directory));
  if (kind !== "directory") return false;
  return await access(directory, constants.W_OK).then(
    () => true,
    () => false,
  );
}

async function kindOf(path: string): Promise<"directory" | "other" | undefined> {
  return await stat(path).then(
    (status) => (status.isDirectory() ? "directory" : "other"),
    () => undefined,
  );
}
