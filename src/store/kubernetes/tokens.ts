import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { CreatedToken, NewToken, TokenView } from "../../api/token.ts";
import { authModeSchema } from "../../api/token.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText, readTextOrNothing } from "../../lib/read-text.ts";
import { Serial } from "../../lib/serial.ts";
import { TokenStore } from "../auth/tokens.ts";
import { privateDirectory } from "../state/state-owner.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import type { OpenClient } from "./cluster.ts";
import { Maps } from "./maps.ts";
import { tokensSecret } from "./names.ts";

const modeEntry = "mode";

/**
 * Tokens in a Secret, with a copy in this process's own state directory that follows it: a token that is revoked
 * anywhere is refused here as soon as the watch says so, and its holder's conversations here are deleted.
 */
export class SecretTokens extends TokenStore {
  readonly #secrets: Maps;
  readonly #stateDir: string;
  readonly #copies = new Serial();
  readonly #watch: Disposable;
  readonly #owned: AsyncDisposable | undefined;

  private constructor(
    stateDir: string,
    secrets: Maps,
    onError: (error: unknown) => void,
    owned: AsyncDisposable | undefined,
  ) {
    super(stateDir);
    this.#owned = owned;
    this.#stateDir = stateDir;
    this.#secrets = secrets;
    this.#watch = secrets.watch(tokensSecret, () => void this.#copies.run(() => this.#copy()).catch(onError));
  }

  /** `onError`: the copy does not follow; a revoked token may still be valid here. `owned` ends with the tokens. */
  static async open(
    stateDir: string,
    secrets: Maps,
    onError: (error: unknown) => void,
    owned?: AsyncDisposable,
  ): Promise<SecretTokens> {
    const tokens = new SecretTokens(stateDir, secrets, onError, owned);
    try {
      await tokens.#copies.run(() => tokens.#copy());
    } catch (error) {
      await tokens[Symbol.asyncDispose]();
      throw error;
    }
    return tokens;
  }

  override async create(token: NewToken, options: { isConfirmed?: boolean } = {}): Promise<CreatedToken> {
    return await this.#copies.run(async () => {
      const created = await super.create(token, options);
      const { id, is_confirmed } = created;
      const record = await readText(join(this.path, `${id}.json`));
      await this.#secrets.write(tokensSecret, {
        [`${id}.json`]: record,
        ...(is_confirmed ? { [`${id}.confirmed`]: new Date().toISOString() } : {}),
      });
      return created;
    });
  }

  override async revoke(id: string): Promise<boolean> {
    await this.#refresh();
    if (!(await super.revoke(id))) return false;
    await this.#secrets.write(tokensSecret, { [`${id}.json`]: undefined, [`${id}.confirmed`]: undefined });
    return true;
  }

  override async confirm(ids?: readonly string[]): Promise<TokenView[]> {
    await this.#refresh();
    const confirmed = await super.confirm(ids);
    const entries = confirmed.map(({ id }) => [`${id}.confirmed`, new Date().toISOString()]);
    if (entries.length > 0) await this.#secrets.write(tokensSecret, Object.fromEntries(entries));
    return confirmed;
  }

  override async list(): Promise<TokenView[]> {
    await this.#refresh();
    return await super.list();
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.#watch[Symbol.dispose]();
    await this.#copies.settled();
    await super[Symbol.asyncDispose]();
    await this.#owned?.[Symbol.asyncDispose]();
  }

  /** Tokens that another process has just written count for a caller that manages tokens. */
  async #refresh(): Promise<void> {
    await this.#secrets.fresh(tokensSecret);
    await this.#copies.run(() => this.#copy());
  }

  async #copy(): Promise<void> {
    const entries = this.#secrets.entries(tokensSecret);
    // Whoever deletes the whole Secret may bring it back: conversations go with a token that was revoked.
    const revoked = this.#secrets.has(tokensSecret)
      ? (await idsIn(this.path)).filter((id) => entries[`${id}.json`] === undefined)
      : [];
    const ended = await Promise.allSettled(revoked.map((id) => super.revoke(id)));
    await copyTo(this.#stateDir, "tokens", ".json", entries);
    await copyTo(this.#stateDir, "confirmed", ".confirmed", entries);
    // Only now: conversations that cannot be deleted keep no token valid.
    const failure = ended.find((each) => each.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }
}

async function idsIn(directory: string): Promise<readonly string[]> {
  const names = await readdir(directory).catch(() => []);
  return names.flatMap((name) => (name.endsWith(".json") && !name.startsWith(".") ? [name.slice(0, -5)] : []));
}

/** Makes the files of `<state>/auth/PART` the entries with that ending; the files of tokens keep it. */
async function copyTo(
  stateDir: string,
  part: "tokens" | "confirmed",
  ending: string,
  entries: Readonly<Record<string, string>>,
): Promise<void> {
  const directory = await privateDirectory(stateDir, part);
  const wanted = new Map(
    Object.entries(entries).flatMap(([name, text]) => {
      if (!name.endsWith(ending)) return [];
      return [[part === "tokens" ? name : name.slice(0, -ending.length), text]];
    }),
  );
  const present = (await readdir(directory)).filter((name) => !name.startsWith("."));
  for (const name of present) if (!wanted.has(name)) await rm(join(directory, name), { force: true });
  for (const [name, text] of wanted) {
    const path = join(directory, name);
    if ((await readTextOrNothing(path)) !== text) await writeFileAtomic(path, text, { fsync: false, mode: 0o600 });
  }
}

export async function openTokenSecret(client: ApiClient, onError: (error: unknown) => void): Promise<Maps> {
  return await Maps.open({ client, kind: "Secret", only: tokensSecret, onError });
}

/** For a tool: the Secret is followed until the tokens are disposed. */
export async function openOwnTokens(stateDir: string, openClient: OpenClient): Promise<TokenStore> {
  await using stack = new AsyncDisposableStack();
  const client = stack.use(await openClient());
  const secrets = stack.use(await openTokenSecret(client, () => undefined));
  return await SecretTokens.open(stateDir, secrets, () => undefined, stack.move());
}

/** Whether the last gateway required credentials; undefined: not recorded yet. False for a record that makes no sense. */
export async function lastAuthModeOf(openClient: OpenClient): Promise<boolean | undefined> {
  using client = await openClient();
  await using secrets = await openTokenSecret(client, () => undefined);
  return await authModeIn(secrets);
}

async function authModeIn(secrets: Maps): Promise<boolean | undefined> {
  const text = (await secrets.fresh(tokensSecret))[modeEntry];
  return text === undefined ? undefined : (authModeSchema.safeParse(parseJson(text)).data?.is_enabled ?? false);
}

export async function noteAuthModeIn(secrets: Maps, isEnabled: boolean): Promise<void> {
  if ((await authModeIn(secrets)) === isEnabled) return;
  await secrets.write(tokensSecret, { [modeEntry]: JSON.stringify({ schema: 1, is_enabled: isEnabled }) });
}
