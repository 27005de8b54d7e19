import { constants } from "node:fs";
import { open, readdir, realpath } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";
import type { ModelRecord } from "../api/model.ts";
import type { FoundModel } from "../api/model-task.ts";
import type { ModelCapability } from "../api/names.ts";
import { modelRefSchema } from "../api/names.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import { mapLimited } from "../lib/map-limited.ts";
import { FactCache } from "./facts.ts";
import type { HeaderFiles } from "./header-files.ts";
import { isGgufName, modelFiles, projectorsAmong, type ModelFiles } from "./model-files.ts";
import { fileRecord } from "./record.ts";

/** A cache of the hub has its files four levels deep. */
const depth = 6;
const mostFiles = 100_000;
const readsAtOnce = 16;
/** Formats of engines that are not llama.cpp. */
const others = new Set([".safetensors", ".onnx", ".bin"]);
/** The kernel's own trees: through them a scan of `/` would reach the files of every running process. */
const kernelTree = /^\/(?:proc|sys)(?:\/|$)/;
/** The first bytes of whisper.cpp's models: "ggml" as a number. */
const ggmlMagic = 0x67676d6c;

/** Finds models in directories. A second scan opens only files that were changed since. */
export class ModelScan {
  readonly #modelsDir: string;
  readonly #cache: FactCache;

  constructor(modelsDir: string, headers?: HeaderFiles) {
    this.#modelsDir = modelsDir;
    this.#cache = new FactCache(headers);
  }

  /**
   * The models below the directories, or else below the models directory, ordered by path. After them the directories
   * that have the name of a model file and hold no model. `records` are the models that the registry has. Rejects with
   * an Error that names the directory that cannot be read, or as `signal` was aborted.
   */
  async find(
    directories: readonly string[],
    records: readonly ModelRecord[],
    signal: AbortSignal,
  ): Promise<readonly FoundModel[]> {
    const roots = directories.length === 0 ? [this.#modelsDir] : directories;
    const files = new Set<string>();
    const named = new Map<string, string | undefined>();
    const visited = new Set<string>();
    for (const root of roots) await this.#walk(root, { files, named, visited }, signal);
    const paths = [...files].toSorted();
    this.#cache.keep(files);
    const ggufs = paths.filter(isGgufName);
    const own = await this.#cache.projectorsIn(ggufs);
    const isProjector = (path: string): boolean => own.has(path);
    const projectors = projectorsAmong(ggufs, isProjector);
    const known = new Set(records.flatMap((record) => record.files));
    /** The holder of each ref: a model of the registry, or the first new file of that name. */
    const refs = new Map(records.map((record) => [record.ref, record]));
    const single = await mapLimited(
      paths.filter((path) => !isGgufName(path)),
      readsAtOnce,
      otherModel,
    );
    const all: Candidate[] = [...modelFiles(ggufs, isProjector), ...single.flatMap((model) => model ?? [])];
    const found = await mapLimited(all, readsAtOnce, async (model) => {
      signal.throwIfAborted();
      const record = await fileRecord(this.#cache, model, projectors.get(dirname(model.paths[0] ?? "")));
      return { record, capabilities: model.capabilities ?? record.capabilities };
    });
    const models = found.map(({ record, capabilities }) => {
      const isKnown = record.files.every((path) => known.has(path));
      const holder = refs.get(record.ref);
      const model = foundModel(record, capabilities, isKnown, isKnown ? undefined : holder);
      if (model.state === "new") refs.set(record.ref, record);
      return model;
    });
    const empty = [...named.keys()].filter((path) => !paths.some((file) => file.startsWith(`${path}/`)));
    return [...models, ...empty.toSorted().map((path) => emptyDirectory(path, named.get(path)))];
  }

  async #walk(root: string, { files, named, visited }: Walked, signal: AbortSignal): Promise<void> {
    // Only a link needs another read: below a path without links, a directory's own path has none either.
    const follow = async (directory: string, real: string | undefined, left: number): Promise<void> =>
      await visit(directory, real ?? (await realpath(directory)), left);
    const leaveOut = (path: string, why: string): void => {
      for (const directory of named.keys())
        if (`${path}/`.startsWith(`${directory}/`)) named.set(directory, `${path} was not searched: ${why}`);
    };
    const visit = async (directory: string, real: string, left: number): Promise<void> => {
      signal.throwIfAborted();
      // A link may lead back to where it lies.
      if (visited.has(real) || kernelTree.test(real)) return;
      visited.add(real);
      for (const entry of await readdir(directory, { withFileTypes: true })) {
        if (entry.name.startsWith(".")) continue;
        const path = join(directory, entry.name);
        const isModel = isGgufName(path) || others.has(extname(path));
        if (isGgufName(path) && entry.isDirectory()) named.set(path, undefined);
        if (isModel && !entry.isDirectory()) files.add(path);
        else if (entry.isDirectory() && left === 0) leaveOut(path, `it lies more than ${depth} levels deep`);
        else if (left > 0 && (entry.isDirectory() || entry.isSymbolicLink())) {
          const place = entry.isSymbolicLink() ? undefined : join(real, entry.name);
          await follow(path, place, left - 1).catch((error: unknown) => {
            const code = errorCode(error) ?? "";
            if (!["ENOENT", "ENOTDIR", "EACCES", "EPERM", "ELOOP"].includes(code)) throw error;
            if (code !== "ENOENT" && code !== "ENOTDIR") leaveOut(path, whyNot(error));
          });
        }
        if (files.size > mostFiles)
          throw new Error(`${root} has more than ${mostFiles} model files: scan a directory in it`);
      }
    };
    try {
      await follow(root, undefined, depth);
    } catch (error) {
      signal.throwIfAborted();
      throw errorCode(error) === undefined ? error : new Error(`${root} cannot be scanned: ${whyNot(error)}`);
    }
  }
}

interface Walked {
  readonly files: Set<string>;
  /** Directories with the name of a model file, and what was not searched in them. */
  readonly named: Map<string, string | undefined>;
  /** Directories without their links. */
  readonly visited: Set<string>;
}

/** A directory in the place of a model file: an unpacked archive, or the mount of a missing file into a container. */
function emptyDirectory(path: string, unsearched: string | undefined): FoundModel {
  const message =
    unsearched === undefined
      ? `${path} is a directory in which no model was found, and no model file`
      : `${path} is a directory, and no model file; ${unsearched}`;
  return { ref: basename(path).replace(/\.gguf$/i, ""), files: [path], capabilities: [], state: "invalid", message };
}

function whyNot(error: unknown): string {
  const texts: Readonly<Record<string, string>> = {
    ENOENT: "it is not there",
    ENOTDIR: "it is no directory",
    EACCES: "the operator's user may not read it",
    EPERM: "the operator's user may not read it",
  };
  return texts[errorCode(error) ?? ""] ?? errorMessage(error);
}

function foundModel(
  record: ModelRecord,
  capabilities: readonly ModelCapability[],
  isKnown: boolean,
  holder: ModelRecord | undefined,
): FoundModel {
  const { ref, files, projectorPath, sizeBytes, architecture, quantization, contextLength } = record;
  const base = {
    ref,
    files,
    capabilities: [...capabilities],
    ...(projectorPath === undefined ? {} : { projectorPath }),
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(architecture === undefined ? {} : { architecture }),
    ...(quantization === undefined ? {} : { quantization }),
    ...(contextLength === undefined ? {} : { contextLength }),
  };
  if (record.state !== "available") {
    return { ...base, state: "invalid", ...(record.message === undefined ? {} : { message: record.message }) };
  }
  if (isKnown) return { ...base, state: "registered" };
  if (!modelRefSchema.safeParse(ref).success)
    return { ...base, ref: "unnamed", state: "invalid", message: `"${ref}" is no ref: rename ${files[0] ?? ""}` };
  if (holder === undefined) return { ...base, state: "new" };
  return { ...base, state: "taken", message: `the ref ${ref} is that of ${holder.path ?? holder.source}` };
}

interface Candidate extends ModelFiles {
  /** Absent: the file's header tells. */
  readonly capabilities?: readonly ModelCapability[];
}

/** A file in another format than GGUF; undefined: a `.bin` file that is no model of whisper.cpp. */
async function otherModel(path: string): Promise<Candidate | undefined> {
  const ref = basename(path, extname(path));
  const model = { ref, paths: [path], shardCount: 1 };
  if (path.endsWith(".onnx")) return { ...model, capabilities: /kokoro/i.test(ref) ? ["tts"] : [] };
  if (!path.endsWith(".bin")) return { ...model, capabilities: [] };
  try {
    // Opening a named pipe would wait for its writer, on one of the few threads that all reads share.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    if (!(await file.stat()).isFile()) return undefined;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return bytesRead === 4 && buffer.readUInt32LE() === ggmlMagic ? { ...model, capabilities: ["stt"] } : undefined;
  } catch {
    return undefined;
  }
}
