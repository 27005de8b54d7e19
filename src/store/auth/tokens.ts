import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { statSync } from "node:fs";
import { link, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  tokenIdSchema,
  tokenOwner,
  tokenRecordSchema,
  type CreatedToken,
  type NewToken,
  type PresentedToken,
  type TokenRecord,
  type TokenView,
} from "../../api/token.ts";
import { removeLeftovers, syncDirectory, temporaryFor } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { conversationDirectory } from "../state/conversation-directory.ts";
import { privateDirectory } from "../state/state-owner.ts";
import { TokenConfirmations } from "./token-confirmations.ts";
import { TokenUse } from "./token-use.ts";
import { readPlainText, UnfitFile } from "../../lib/small-file.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";
import { parseJson } from "../../lib/json.ts";

interface Known {
  readonly record: TokenRecord;
  /** Hexadecimal, as bytes. */
  readonly digest: Buffer;
  /** The secret once its hash was right: comparing it costs a tenth of hashing it again. */
  secret: Buffer | undefined;
  /** The file's status, which changes when a person replaces or edits the file. */
  readonly inode: number;
  readonly modifiedMs: number;
  readonly sizeBytes: number;
  /** The turn of the event loop of the file's last `stat`. */
  turn: number;
  isConfirmed: boolean;
}

/** 256 bits in base64url. */
const secretLength = 43;
const warning = "This token is shown once and cannot be shown again: keep it now.";
/** A turn with many ready requests repeats the `stat` after this number. */
const shareLimit = 64;
/** Compared for an unknown token, so that an unknown id costs as much as a wrong secret. */
const nobody = Buffer.alloc(64);
const noSecret = Buffer.alloc(secretLength);

/**
 * API tokens: one file each in `<state>/auth/tokens`, mode 0600, written once and never changed, so that any number of
 * processes create and revoke without a lock. A missing file is a revoked token: the file system decides, and no cache
 * outlives a turn of the event loop.
 */
export class TokenStore implements AsyncDisposable {
  readonly path: string;
  readonly #stateDir: string;
  readonly #known = new Map<string, Known>();
  readonly #use: TokenUse;
  readonly #confirmations: TokenConfirmations;
  /** The bytes of the presented secret's hash: overwritten by every check. */
  readonly #presented = Buffer.alloc(64);
  readonly #secret = Buffer.alloc(secretLength);
  #turn = 0;
  #isTurnEnding = false;
  #sharing = 0;

  constructor(stateDir: string, options: { useIntervalMs?: number } = {}) {
    this.#stateDir = stateDir;
    this.path = join(stateDir, "auth", "tokens");
    this.#confirmations = new TokenConfirmations(stateDir);
    this.#use = new TokenUse({
      path: join(stateDir, "auth", "used"),
      intervalMs: options.useIntervalMs ?? 30_000,
      exists: (id) => statSync(this.#file(id), { throwIfNoEntry: false }) !== undefined,
    });
  }

  /**
   * The token's record, or undefined for an unknown or revoked id, a wrong secret or a missing confirmation.
   * Synchronous: one `stat`, and one hash unless the secret was right before; requests of one token that are read in
   * the same turn of the event loop share the `stat`, and no request after a revocation shares a `stat` from before it.
   * Throws where the store cannot be read.
   */
  verify({ id, secret }: PresentedToken): TokenRecord | undefined {
    if (secret.length !== secretLength) return undefined;
    // In UTF-8, so that no other character can count as one of the alphabet.
    if (this.#secret.write(secret, "utf8") !== secretLength) return undefined;
    const known = this.#known.get(id);
    const isSame = this.#isSecretOf(known);
    // A wrong secret also causes a `stat`, so that it costs as much as an unknown id.
    const isSeen = isSame && known?.turn === this.#turn;
    const found = isSeen ? known : this.#check(id, known);
    if (found === undefined) return undefined;
    if (found === known ? !isSame : !this.#isSecretOf(found)) return undefined;
    found.isConfirmed ||= this.#confirmations.has(found.record.id);
    if (!found.isConfirmed) return undefined;
    found.secret ??= Buffer.from(this.#secret);
    if (!isSeen) {
      found.turn = this.#turn;
      this.#use.mark(id);
    }
    this.#endTurn();
    return found.record;
  }

  /**
   * Whether `verify` has just refused this token only for want of a confirmation. Only the holder of its secret can
   * learn that, and an unknown id costs nothing.
   */
  isUnconfirmed({ id, secret }: PresentedToken): boolean {
    const known = this.#known.get(id);
    if (known === undefined || known.isConfirmed || this.#secret.write(secret, "utf8") !== secretLength) return false;
    return this.#isSecretOf(known);
  }

  /**
   * Resolves once the token would survive a power cut. The only place where its secret appears. With
   * `isConfirmed: false`, for a token that everybody could have created, it is not valid before `confirm`.
   */
  async create({ label, scope }: NewToken, { isConfirmed = true } = {}): Promise<CreatedToken> {
    await this.#prepare();
    const secret = randomBytes(32).toString("base64url");
    for (;;) {
      const id = newId();
      const record: TokenRecord = {
        schema: 1,
        id,
        label,
        scope,
        created_at: new Date().toISOString(),
        sha256: hash("sha256", secret, "hex"),
      };
      if (!(await this.#writeNew(id, JSON.stringify(record)))) continue;
      if (isConfirmed) await this.#confirmations.add(id);
      const { created_at } = record;
      const view = { id, label, scope, created_at, last_used_at: null, is_confirmed: isConfirmed };
      return { ...view, token: `svc_${id}.${secret}`, warning };
    }
  }

  /** False for an unknown token. Once resolved, every process refuses it, and its holder's conversations are deleted. */
  async revoke(id: string): Promise<boolean> {
    if (!tokenIdSchema.safeParse(id).success) return false;
    try {
      await rm(this.#file(id));
    } catch (error) {
      if (errorCode(error) === "ENOENT") return false;
      throw error;
    }
    this.#known.delete(id);
    await syncDirectory(this.path);
    await this.#use.forget(id);
    await this.#confirmations.remove(id);
    // No later token can read the conversations: an id never comes back.
    await rm(conversationDirectory(this.#stateDir, tokenOwner(id)), { recursive: true, force: true });
    return true;
  }

  /** The tokens that are valid from now on: the unconfirmed ones among `ids`, or all. */
  async confirm(ids?: readonly string[]): Promise<TokenView[]> {
    const waiting = (await this.list()).filter((each) => !each.is_confirmed && ids?.includes(each.id) !== false);
    for (const { id } of waiting) await this.#confirmations.add(id);
    return waiting.map((view) => ({ ...view, is_confirmed: true }));
  }

  /** Without secrets, the oldest first. A file that does not parse is left out. */
  async list(): Promise<TokenView[]> {
    let names: string[];
    try {
      names = await readdir(this.path);
    } catch (error) {
      if (errorCode(error) === "ENOENT") return [];
      throw error;
    }
    const ids = names.filter((name) => name.endsWith(".json")).map((name) => name.slice(0, -5));
    const views = await Promise.all(
      ids.map(async (id): Promise<TokenView[]> => {
        const record = parsed(await readTextOrNothing(this.#file(id)), id);
        if (record === undefined) return [];
        const { label, scope, created_at } = record;
        const is_confirmed = this.#confirmations.has(id);
        return [{ id, label, scope, created_at, last_used_at: await this.#use.last(id), is_confirmed }];
      }),
    );
    return views.flat().toSorted((a, b) => compare(a.created_at, b.created_at) || compare(a.id, b.id));
  }

  /** Writes the unwritten times of use. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#use[Symbol.asyncDispose]();
  }

  /** Whether the presented secret is the token's. */
  #isSecretOf(known: Known | undefined): boolean {
    const isRemembered = timingSafeEqual(this.#secret, known?.secret ?? noSecret);
    if (isRemembered && known?.secret !== undefined) return true;
    // Node hashes bytes in half the time of a text.
    this.#presented.write(hash("sha256", this.#secret, "hex"), "latin1");
    return timingSafeEqual(this.#presented, known?.digest ?? nobody);
  }

  #file(id: string): string {
    return `${this.path}/${id}.json`;
  }

  #check(id: string, known: Known | undefined): Known | undefined {
    const file = this.#file(id);
    const status = statSync(file, { throwIfNoEntry: false });
    if (status === undefined) {
      this.#known.delete(id);
      return undefined;
    }
    const { ino: inode, mtimeMs: modifiedMs, size: sizeBytes } = status;
    if (known?.inode === inode && known.modifiedMs === modifiedMs && known.sizeBytes === sizeBytes) return known;
    this.#known.delete(id);
    const record = parsed(textOf(file), id);
    if (record === undefined) return undefined;
    const digest = Buffer.from(record.sha256, "latin1");
    const read = { record, digest, secret: undefined, inode, modifiedMs, sizeBytes, turn: -1, isConfirmed: false };
    this.#known.set(id, read);
    return read;
  }

  /** A `stat` counts until the loop has read the ready sockets, and not for all of a long turn. */
  #endTurn(): void {
    this.#sharing += 1;
    if (this.#sharing >= shareLimit) {
      this.#sharing = 0;
      this.#turn += 1;
    }
    if (this.#isTurnEnding) return;
    this.#isTurnEnding = true;
    setImmediate(() => {
      this.#isTurnEnding = false;
      this.#turn += 1;
    });
  }

  async #prepare(): Promise<void> {
    await privateDirectory(this.#stateDir, "tokens");
    await removeLeftovers(this.path);
  }

  /** The file appears whole or not at all; false when the id is taken. */
  async #writeNew(id: string, text: string): Promise<boolean> {
    const temporary = temporaryFor(this.#file(id));
    try {
      await writeFile(temporary, text, { flag: "wx", mode: 0o600, flush: true });
      await link(temporary, this.#file(id));
    } catch (error) {
      if (errorCode(error) === "EEXIST") return false;
      throw error;
    } finally {
      await rm(temporary, { force: true });
    }
    await syncDirectory(this.path);
    return true;
  }
}

/** 8 characters of 32: 40 random bits; a taken id is drawn again. */
function newId(): string {
  return Array.from(randomBytes(8), (byte) => "abcdefghijkmnpqrstuvwxyz23456789"[byte & 31]).join("");
}

/** Empty when the file was removed since its `stat`: the token was revoked at that moment. */
function textOf(file: string): string {
  try {
    return readPlainText(file);
  } catch (error) {
    // Anything but a plain file is no token.
    if (error instanceof UnfitFile || ["ENOENT", "ELOOP"].includes(errorCode(error) ?? "")) return "";
    throw error;
  }
}

function parsed(text: string, id: string): TokenRecord | undefined {
  const { data } = tokenRecordSchema.safeParse(parseJson(text));
  return data?.id === id ? data : undefined;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
