import { stat } from "node:fs/promises";
import type { ContextCost } from "../api/context-cost.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import { mapLimited } from "../lib/map-limited.ts";
import { contextCostIn } from "./fit/context-cost.ts";
import { readGguf, type GgufFacts } from "./gguf.ts";
import { GgufError } from "./gguf-reader.ts";
import { HeaderFiles } from "./header-files.ts";
import { isGgufName, isProjectorName } from "./model-files.ts";

/** Files whose stamps are looked at together. */
const looksAtOnce = 16;

type Reason = "ModelFileMissing" | "NotAModel" | "TruncatedModel" | "Unreadable";

/** The status of a file, without its bytes. */
export interface FileStamp {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly isDirectory: boolean;
  /** Differs when the file was replaced or written to. */
  readonly text: string;
}

export type FileFacts =
  | { readonly stamp: FileStamp; readonly facts: GgufFacts | undefined }
  | { readonly stamp: FileStamp | undefined; readonly reason: Reason; readonly message: string };

interface KnownCost {
  readonly stamps: string;
  readonly cost: ContextCost | undefined;
}

/** Header facts by path and stamp: a resync of any number of models opens no unchanged file. */
export class FactCache {
  readonly #known = new Map<string, { readonly stamp: string; readonly found: FileFacts }>();
  /** The costs of models in several files, by their first file. */
  readonly #costs = new Map<string, KnownCost>();
  readonly #headers: HeaderFiles;
  readonly #read: typeof readGguf;

  constructor(headers = new HeaderFiles(), read = readGguf) {
    this.#headers = headers;
    this.#read = read;
  }

  /** The file's facts. Never throws: a fault of the file is part of the result. */
  async factsOf(path: string): Promise<FileFacts> {
    let stamp: FileStamp;
    try {
      stamp = await stampOf(path);
    } catch (error) {
      this.#known.delete(path);
      if (errorCode(error) === "ENOENT") {
        return { stamp: undefined, reason: "ModelFileMissing", message: `${path} is not there` };
      }
      return unreadable(path, undefined, error);
    }
    const known = this.#known.get(path);
    if (known?.stamp === stamp.text) return known.found;
    const found = await this.#open(path, stamp);
    // A file that could not be read may be readable next time, without a change of the file.
    if ("reason" in found && found.reason === "Unreadable") this.#known.delete(path);
    else this.#known.set(path, { stamp: stamp.text, found });
    return found;
  }

  /** The projectors among these files: by their headers, and by their names where a header does not tell. */
  async projectorsIn(paths: readonly string[]): Promise<ReadonlySet<string>> {
    const found = await mapLimited(paths, looksAtOnce, async (path) => {
      const known = await this.factsOf(path);
      const kind = "reason" in known ? undefined : known.facts?.kind;
      return (kind === undefined ? isProjectorName(path) : kind === "mmproj") ? [path] : [];
    });
    return new Set(found.flat());
  }

  /**
   * The sizes of the context of a model in several files, in order, whose facts were read before. Undefined where they are
   * not known.
   */
  async contextCostOf(paths: readonly string[]): Promise<ContextCost | undefined> {
    const [first = ""] = paths;
    const stamps = paths.map((path) => this.#known.get(path)?.stamp ?? "").join(" ");
    const known = this.#costs.get(first);
    if (known?.stamps === stamps) return known.cost;
    try {
      const cost = await this.#headers.read(paths, contextCostIn);
      this.#costs.set(first, { stamps, cost });
      return cost;
    } catch {
      // A file has changed since its facts were read: the next sweep finds that.
      return undefined;
    }
  }

  /** Removes every entry that is not in `paths`. */
  keep(paths: ReadonlySet<string>): void {
    for (const known of [this.#known, this.#costs])
      for (const path of known.keys()) if (!paths.has(path)) known.delete(path);
  }

  async #open(path: string, stamp: FileStamp): Promise<FileFacts> {
    // Engines other than llama.cpp have models that are directories.
    if (stamp.isDirectory && !isGgufName(path)) return { stamp, facts: undefined };
    if (stamp.isDirectory) return { stamp, reason: "NotAModel", message: `${path} is a directory, and no GGUF file` };
    try {
      return { stamp, facts: await this.#read(path, this.#headers) };
    } catch (error) {
      if (!(error instanceof GgufError)) return unreadable(path, stamp, error);
      // Another format is wrong only under a name that ends in `.gguf`: engines have formats of their own.
      if (error.reason === "NotAModel" && !isGgufName(path)) return { stamp, facts: undefined };
      return { stamp, reason: error.reason, message: `${path} ${error.message}` };
    }
  }
}

/** Throws what `stat` throws, and an Error when the path is no file or directory. */
export async function stampOf(path: string): Promise<FileStamp> {
  const found = await stat(path);
  // Opening a pipe would wait for its other end for ever.
  if (!found.isFile() && !found.isDirectory()) throw new Error("it is neither a file nor a directory");
  return {
    sizeBytes: found.size,
    modifiedMs: found.mtimeMs,
    isDirectory: found.isDirectory(),
    text: `${found.ino}:${found.size}:${found.mtimeMs}`,
  };
}

function unreadable(path: string, stamp: FileStamp | undefined, error: unknown): FileFacts {
  const cause = errorMessage(error);
  return { stamp, reason: "Unreadable", message: `${path} cannot be read: ${cause}` };
}
