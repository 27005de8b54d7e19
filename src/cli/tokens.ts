import { createdTokenSchema, tokenListSchema, type CreatedToken, type NewToken, type TokenView } from "../api/token.ts";
import { CommandError, notBerth, type Client } from "./client.ts";
import { cell, render, renderOne, type Column, type Format } from "./output.ts";

/** The place of tokens: the store itself on the service's machine, or the management API. */
export interface TokenSource {
  list(): Promise<TokenView[]>;
  create(wanted: NewToken): Promise<CreatedToken>;
  /** False for an unknown token. */
  revoke(id: string): Promise<boolean>;
  /** The tokens that are valid from now on: of `ids`, or all. Absent: only the store itself can confirm. */
  confirm?(ids: readonly string[] | undefined): Promise<TokenView[]>;
}

/** Tokens over the management API; needs an admin's credentials. */
export function remoteTokens(client: Client): TokenSource {
  return {
    async list() {
      return understood(tokenListSchema.safeParse(await client.call("GET /api/auth/tokens")).data).data;
    },
    async create(wanted) {
      return understood(
        createdTokenSchema.safeParse(await client.call("POST /api/auth/tokens", { body: wanted })).data,
      );
    },
    async revoke(id) {
      try {
        await client.send("DELETE /api/auth/tokens/{id}", { params: { id } });
        return true;
      } catch (error) {
        if (error instanceof CommandError && error.code === "system.not_found") return false;
        throw error;
      }
    },
  };
}

const columns: readonly Column[] = [
  { title: "ID", value: (row) => cell(row["id"]) },
  { title: "LABEL", value: (row) => cell(row["label"]) },
  { title: "SCOPE", value: (row) => cell(row["scope"]) },
  { title: "CREATED", value: (row) => cell(row["created_at"]) },
  { title: "LAST USED", value: (row) => (row["last_used_at"] === null ? "never" : cell(row["last_used_at"])) },
];
/** Shown where a confirmation is missing. */
const confirmedColumn: Column = {
  title: "COUNTS",
  value: (row) => (row["is_confirmed"] === false ? "once confirmed" : "yes"),
};

/** `berth token list`. */
export async function tokenTable(source: TokenSource, format: Format): Promise<string> {
  return await table(await source.list(), format);
}

/**
 * `berth token list --confirm`: the tokens that were created while authentication was off, and are valid from now on.
 * Throws CommandError without access to the store, or for an unknown id.
 */
export async function tokenConfirm(
  source: TokenSource,
  ids: readonly string[] | undefined,
  format: Format,
): Promise<string> {
  if (source.confirm === undefined)
    throw new CommandError(
      "auth.forbidden",
      "tokens are confirmed on the service's machine, not over HTTP",
      "run `berth token list --confirm` there, as the user of the service",
    );
  const known = await source.list();
  const missing = ids?.find((id) => !known.some((each) => each.id === id));
  if (missing !== undefined)
    throw new CommandError(
      "system.not_found",
      `no token has the id "${missing.slice(0, 64)}"`,
      "see `berth token list`",
    );
  const confirmed = await source.confirm(ids);
  if (confirmed.length === 0 && format === "table") return "no token waits for a confirmation\n";
  return await table(confirmed, format);
}

async function table(tokens: readonly TokenView[], format: Format): Promise<string> {
  const isAnyWaiting = tokens.some((each) => !each.is_confirmed);
  return await render(tokens, isAnyWaiting ? [...columns, confirmedColumn] : columns, format, "id");
}

/** `berth token create`: the token alone for standard output, and the messages for the person. */
export async function tokenCreate(
  source: TokenSource,
  wanted: NewToken,
  format: Format,
): Promise<{ text: string; note: string }> {
  const created = await source.create(wanted);
  const text = format === "json" || format === "yaml" ? await renderOne(created, format) : `${created.token}\n`;
  const later = created.is_confirmed
    ? ""
    : "Authentication is off: once it is on, this token counts after `berth token list --confirm`.\n";
  return { text, note: `token ${created.id} (${created.label}, ${created.scope}). ${created.warning}\n${later}` };
}

/** `berth token revoke`. Throws CommandError for an unknown token. */
export async function tokenRevoke(source: TokenSource, id: string): Promise<string> {
  if (await source.revoke(id)) return `revoked ${id}: its next request is refused\n`;
  throw new CommandError("system.not_found", `no token has the id "${id.slice(0, 64)}"`, "see `berth token list`");
}

function understood<T>(value: T | undefined): T {
  if (value === undefined) throw notBerth("the service answered something else than asked");
  return value;
}
