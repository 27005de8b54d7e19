import { ApiError } from "../../api/errors.ts";
import type { ConversationHead } from "../../api/management/chat-routes.ts";
import { TaskNotDone, TaskThread } from "../../lib/task-thread.ts";
import { errorOf } from "./thread-failure.ts";
import type { Answer, Question } from "./task.ts";
import { ConversationStore } from "./store.ts";

/**
 * Conversations of the chat page. Whole ones are checked, read and written on a thread of their own, one after the
 * other: the event loop of all requests must not wait for 16 MiB of JSON.
 */
export class ConversationThread implements AsyncDisposable {
  readonly #stateDir: string;
  readonly #hasAll: boolean;
  readonly #store: ConversationStore;
  readonly #thread = new TaskThread({
    module: new URL("worker.ts", import.meta.url),
    idleMs: 30_000,
    // Each may hold a body.
    most: 16,
    limits: { maxOldGenerationSizeMb: 512 },
  });

  /** `hasAll`: false where other gateways have conversations of the same owners elsewhere. */
  constructor(stateDir: string, { hasAll = true } = {}) {
    this.#stateDir = stateDir;
    this.#hasAll = hasAll;
    this.#store = new ConversationStore(stateDir);
  }

  /** Latest first. A file that cannot be read or does not parse is left out. */
  async list(owner: string): Promise<readonly ConversationHead[]> {
    return await this.#store.list(owner);
  }

  /** How many conversations an owner has; undefined where that is not known. */
  async count(owner: string): Promise<number | undefined> {
    return this.#hasAll ? await this.#store.count(owner) : undefined;
  }

  /** The conversation as JSON. Throws ApiError `system.not_found`. */
  async read(owner: string, id: string): Promise<Uint8Array> {
    const answer = await this.#call({ do: "read", stateDir: this.#stateDir, owner, id });
    if ("bytes" in answer) return answer.bytes;
    throw unexpected();
  }

  /**
   * Keeps the conversation that a client has sent as JSON. `basedOn`: the `updated_at` of the text that it continues, or
   * `none`; absent: it replaces any. Throws ApiError: `dispatch.invalid_request` where it is none of that id,
   * `config.changed` where another text is kept, or none any more, `dispatch.payload_too_large` for more than an owner may have, and
   * `system.overloaded` where others write it for too long.
   */
  async write(owner: string, id: string, bytes: Uint8Array, basedOn?: string): Promise<ConversationHead> {
    const based = basedOn === undefined ? {} : { basedOn };
    const answer = await this.#call({
      do: "write",
      stateDir: this.#stateDir,
      owner,
      id,
      bytes,
      hasAll: this.#hasAll,
      ...based,
    });
    if ("head" in answer) return answer.head;
    throw unexpected();
  }

  /** After earlier writes. Throws ApiError: `system.not_found`, `system.overloaded` as `write` does. */
  async remove(owner: string, id: string): Promise<void> {
    const answer = await this.#call({ do: "remove", stateDir: this.#stateDir, owner, id });
    if (!("isRemoved" in answer)) throw unexpected();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
  }

  async #call(question: Question): Promise<Answer> {
    try {
      const answer = await this.#thread.call<Answer>(question);
      if ("failure" in answer) throw errorOf(answer.failure);
      return answer;
    } catch (error) {
      throw error instanceof TaskNotDone ? notDone(error) : error;
    }
  }
}

function notDone(error: TaskNotDone): ApiError {
  if (error.reason !== "busy") return new ApiError("system.internal", { cause: error });
  const headers = { "retry-after": "5" };
  return new ApiError("system.overloaded", { message: "too many conversations are being read and written", headers });
}

function unexpected(): Error {
  return new Error("the thread of conversations has answered something else");
}
