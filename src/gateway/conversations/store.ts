import { existsSync } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../api/errors.ts";
import {
  conversationHeadSchema,
  conversationIdSchema,
  conversationSchema,
  type Conversation,
  type ConversationHead,
} from "../../api/management/chat-routes.ts";
import { removeLeftovers, writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { mapLimited } from "../../lib/map-limited.ts";
import { Serial } from "../../lib/serial.ts";
import { readSmallText } from "../../lib/small-file.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { conversationDirectory } from "../../store/state/conversation-directory.ts";
import { acquireLock, LockHeld, type HeldLock } from "../../store/state/lock.ts";

const keptSchema = conversationHeadSchema.pick({ updated_at: true }).loose();
/** A conversation has at most 16 MiB as the client sends it; escapes may make the file longer. */
const longestFileBytes = 128 * 1024 ** 2;
const lockEnd = ".lock";
/** How long a write waits for one of the same conversation by another gateway. */
const lockWaitMs = 3000;
/** Each has a file open. */
const readsAtOnce = 16;
/** Of one owner: a list of them is read whole. */
const mostConversations = 1000;

/**
 * Conversations of the chat page: two files each in a directory per owner, the head for lists and the whole. Prompts are
 * private: only the gateway's own user may read them.
 */
export class ConversationStore {
  readonly #stateDir: string;
  readonly #mostBytes: number;
  readonly #writes = new Serial();

  /** `mostBytes`: of one owner's files together; less in tests. */
  constructor(stateDir: string, mostBytes = 256 * 1024 ** 2) {
    this.#stateDir = stateDir;
    this.#mostBytes = mostBytes;
  }

  /** Latest first. A file that cannot be read or does not parse is left out. */
  async list(owner: string): Promise<readonly ConversationHead[]> {
    const directory = this.#of(owner);
    const files = (await namesIn(directory)).filter((name) => name.endsWith(".head.json"));
    const heads = await mapLimited(
      files,
      readsAtOnce,
      async (file) => conversationHeadSchema.safeParse(await jsonAt(join(directory, file)).catch(() => undefined)).data,
    );
    return heads
      .filter((head) => head !== undefined)
      .toSorted((one, other) => Date.parse(other.updated_at) - Date.parse(one.updated_at));
  }

  /** How many conversations an owner has, read from the names of their files alone; undefined where that fails. */
  async count(owner: string): Promise<number | undefined> {
    const names = await namesIn(this.#of(owner)).catch(() => undefined);
    return names && new Set(names.map(idIn)).size;
  }

  /** Throws ApiError `system.not_found`. */
  async read(owner: string, id: string): Promise<Conversation> {
    const whole = isId(id) && (await jsonAt(join(this.#of(owner), `${id}.json`)));
    const { data } = conversationSchema.safeParse(whole);
    if (data === undefined) throw notFound(id);
    return data;
  }

  /**
   * `basedOn`: the `updated_at` of the kept text that this one continues, or `none`; absent: it replaces any. `hasAll`:
   * false where that text may be at another gateway. Throws ApiError: `config.changed` where another text is kept, or that
   * one has been deleted, `dispatch.payload_too_large` for more than an owner may have, `system.overloaded` where others
   * write it for too long.
   */
  async write(owner: string, conversation: Conversation, basedOn?: string, hasAll = true): Promise<ConversationHead> {
    const base = basedOn === undefined ? undefined : { basedOn, hasAll };
    // Two writes at once would each count the other, and both be refused.
    return await this.#writes.run(async () => await this.#write(owner, conversation, base));
  }

  async #write(owner: string, conversation: Conversation, base?: Base): Promise<ConversationHead> {
    const directory = this.#of(owner);
    const { id, title, model, updated_at, pinned } = conversation;
    const head = { id, title, model, updated_at, ...(pinned === true && { pinned }) };
    const text = JSON.stringify(conversation);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await removeLeftovers(directory);
    await using locks = new AsyncDisposableStack();
    // Other gateways write, too: the bounds hold because each counts the others' temporary files once its own is there.
    const beforeReplace = async (): Promise<void> => {
      await this.#checkBounds(directory, id, Buffer.byteLength(text));
      // Held until both files are there: another gateway reads either what is replaced here, or what replaces it.
      const lock = locks.use(await lockOf(directory, id));
      if (base !== undefined) await checkBase(join(directory, `${id}.json`), updated_at, base);
      if (!lock.isHeld()) throw busy(id);
    };
    await writeFileAtomic(join(directory, `${id}.json`), text, { fsync: false, mode: 0o600, beforeReplace });
    // Last: what a list names can be read.
    await writeFileAtomic(join(directory, `${id}.head.json`), JSON.stringify(head), { fsync: false, mode: 0o600 });
    return head;
  }

  async #checkBounds(directory: string, id: string, bytes: number): Promise<void> {
    const names = await namesIn(directory);
    const others = names.filter((name) => idIn(name) !== id);
    if (!names.includes(`${id}.json`) && new Set(others.map(idIn)).size >= mostConversations) {
      const message = `you have ${mostConversations} conversations: delete some before the next one`;
      throw new ApiError("dispatch.payload_too_large", { message });
    }
    const sizes = await Promise.all(others.map((name) => sizeOf(join(directory, name))));
    if (sizes.reduce((sum, size) => sum + size, bytes) > this.#mostBytes) {
      const message = `your conversations would take more than ${Math.floor(this.#mostBytes / 1024 ** 2)} MiB: delete some first`;
      throw new ApiError("dispatch.payload_too_large", { message });
    }
  }

  /** Throws ApiError: `system.not_found`, `system.overloaded` where others write it for too long. */
  async remove(owner: string, id: string): Promise<void> {
    const directory = this.#of(owner);
    // The text first: after a crash between them a list still names what is to be deleted.
    const files = [`${id}.json`, `${id}.head.json`];
    const names = await namesIn(directory);
    // A file that cannot be read is deleted, too: nobody could get rid of it otherwise.
    if (!isId(id) || !files.some((file) => names.includes(file))) throw notFound(id);
    await using _lock = await lockOf(directory, id);
    for (const file of files) await rm(join(directory, file), { force: true });
  }

  #of(owner: string): string {
    return conversationDirectory(this.#stateDir, owner);
  }
}

/**
 * Of the gateways on this directory, one at a time replaces or deletes a conversation. Throws ApiError
 * `system.overloaded`.
 */
async function lockOf(directory: string, id: string): Promise<HeldLock> {
  const until = steadyNow() + lockWaitMs;
  for (;;) {
    try {
      return await acquireLock(join(directory, `.${id}${lockEnd}`));
    } catch (error) {
      if (!(error instanceof LockHeld)) throw error;
      if (steadyNow() > until) throw busy(id);
    }
    await delay(5 + Math.random() * 20);
  }
}

function busy(id: string): ApiError {
  const headers = { "retry-after": "5" };
  return new ApiError("system.overloaded", { message: `conversation ${id} is being written: try again`, headers });
}

interface Base {
  readonly basedOn: string;
  readonly hasAll: boolean;
}

/** The whole file is read, not its head: after a crash between the two writes the head is that of an earlier text. */
async function checkBase(path: string, own: string, { basedOn, hasAll }: Base): Promise<void> {
  if (hasAll && basedOn !== "none" && !existsSync(path)) {
    const message = "this conversation has been deleted meanwhile: keep yours by based_on=none, or by another id";
    throw new ApiError("config.changed", { message, details: { updated_at: null } });
  }
  const kept = keptSchema.safeParse(await jsonAt(path)).data?.updated_at;
  // A client whose answer was lost sends the same text again.
  if (kept === undefined || kept === basedOn || kept === own) return;
  const message = `another text of this conversation was kept at ${kept}: read it, or keep yours by another id`;
  throw new ApiError("config.changed", { message, details: { updated_at: kept } });
}

/** Of a conversation's text, head or temporary file (`.ID.json.….tmp`): an id has no dot. */
function idIn(file: string): string {
  return file.split(".").find((part) => part !== "") ?? "";
}

/** An id comes from a path: one with slashes would name a file of another owner. */
function isId(id: string): boolean {
  return conversationIdSchema.safeParse(id).success;
}

function notFound(id: string): ApiError {
  return new ApiError("system.not_found", { message: `no conversation of yours is ${id}` });
}

/** Without locks. Only a directory that does not exist is an empty one. */
async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return (await readdir(directory)).filter((name) => !name.includes(lockEnd));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(() => undefined))?.size ?? 0;
}

/** Undefined without the file, and where it does not parse. Any other file may hold a text: rejects. */
async function jsonAt(path: string): Promise<unknown> {
  try {
    // A file may have 16 MiB, and a list reads a thousand heads: every other request waits for a read on this thread.
    return parseJson(await readSmallText(path, longestFileBytes));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
