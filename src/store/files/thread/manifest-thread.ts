import { ApiError } from "../../../api/errors.ts";
import { errorCode } from "../../../lib/error-code.ts";
import { TaskNotDone, TaskThread } from "../../../lib/task-thread.ts";
import type { Diagnostic } from "../../store.ts";
import { errorOf } from "../../thread-failure.ts";
import type { DeclaredSlot } from "../declared-slots.ts";
import type { AsyncManifestWriter } from "../writer.ts";
import type { Answer, Given, Taken, TaskName, Where } from "./task.ts";

/** A manifest within the limits of `parseDocuments` takes its parser less than a second and 100 MB. */
const options = {
  module: new URL("worker.ts", import.meta.url),
  limitMs: 10_000,
  idleMs: 30_000,
  most: 32,
  limits: { maxOldGenerationSizeMb: 512 },
} as const;

/**
 * Everything that reads or writes manifests for the API, on threads of their own: a client's text may take its parser
 * seconds, and the event loop of all requests must not wait. Reading and writing do not wait for each other.
 */
export class ManifestThread implements AsyncDisposable {
  readonly #readers = new TaskThread(options);
  readonly #writers = new TaskThread(options);

  /** Problems of unsaved manifests, by file name. */
  async validateFiles(files: Readonly<Record<string, string>>): Promise<readonly Diagnostic[]> {
    return await call(this.#readers, "validateFiles", files);
  }

  /** Problems of a configuration directory. */
  async validateDirectory(configDir: string): Promise<readonly Diagnostic[]> {
    return await call(this.#readers, "validateDirectory", configDir);
  }

  /** The valid slots of unsaved manifests by file name, or of a configuration directory. */
  async slotsIn(from: Readonly<Record<string, string>> | string): Promise<readonly DeclaredSlot[]> {
    return await call(this.#readers, "slotsIn", from);
  }

  writer(where: Where): AsyncManifestWriter {
    const writers = this.#writers;
    return {
      readOnlyReason: async () => await call(this.#readers, "readOnlyReason", where),
      create: async (kind, name, change) => await call(writers, "create", { ...where, kind, name, change }),
      replace: async (kind, name, change) => await call(writers, "replace", { ...where, kind, name, change }),
      set: async (kind, name, path, value) => {
        await call(writers, "set", { ...where, kind, name, path, value });
      },
      specHash: async (kind, name) => await call(writers, "specHash", { ...where, kind, name }),
      source: async (kind, name) => await call(this.#readers, "source", { ...where, kind, name }),
      specOf: async (kind, name, text) => await call(this.#readers, "specOf", { ...where, kind, name, text }),
      writeSource: async (kind, name, change) => {
        await call(writers, "writeSource", { ...where, kind, name, change });
      },
      remove: async (kind, name, { isKnown }) => await call(writers, "remove", { ...where, kind, name, isKnown }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#readers[Symbol.asyncDispose](), this.#writers[Symbol.asyncDispose]()]);
  }
}

/** Rejects with the task's ApiError; with `system.overloaded` or `config.invalid` where the task was not done. */
async function call<K extends TaskName>(thread: TaskThread, name: K, input: Taken<K>): Promise<Given<K>> {
  try {
    const answer = await thread.call<Answer<K>>({ name, input });
    if ("failure" in answer) throw errorOf(answer.failure);
    return answer.value;
  } catch (error) {
    throw error instanceof TaskNotDone ? notDone(error) : error;
  }
}

function notDone(error: TaskNotDone): ApiError {
  switch (error.reason) {
    case "busy":
      return new ApiError("system.overloaded", {
        message: "too many manifests are being read and written",
        headers: { "retry-after": "5" },
      });
    case "ended":
      if (errorCode(error.cause) !== "ERR_WORKER_OUT_OF_MEMORY")
        return new ApiError("system.internal", { cause: error });
      return tooMuch(error);
    case "late":
      return tooMuch(error);
    default:
      return error.reason satisfies never;
  }
}

function tooMuch(cause: TaskNotDone): ApiError {
  return new ApiError("config.invalid", {
    message: "the manifest takes too much time or memory to read: make it smaller or simpler",
    cause,
  });
}
