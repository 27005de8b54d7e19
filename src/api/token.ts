import { z } from "zod";
import { tokenScopes } from "./scopes.ts";

export const tokenIdSchema = z.string().regex(/^[a-z0-9]{4,32}$/, "4 to 32 lower-case letters and digits");

const noLabel = "1 to 100 visible characters";
/**
 * Control characters and characters that move or hide others, as a pattern without Unicode classes, since generators of
 * test texts know none; the few beyond U+FFFF are checked separately. A character that this version of Unicode does not
 * name is allowed.
 */
const unseen = String.raw`\x00-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb`;
const labelPattern = new RegExp(`^[^\\s${unseen}]([^${unseen}]{0,98}[^\\s${unseen}])?$`, "u");

/** Body of `POST /api/auth/tokens`. */
export const newTokenSchema = z.strictObject({
  label: z
    .string()
    .regex(labelPattern, noLabel)
    .refine((label) => !/\p{Cf}/u.test(label), noLabel)
    .describe("Becomes the identity of requests made with the token"),
  scope: z.enum(tokenScopes),
});
export type NewToken = z.output<typeof newTokenSchema>;

/** A token as lists show it: nothing in it grants access. */
export const tokenViewSchema = z.strictObject({
  id: tokenIdSchema,
  label: z.string(),
  scope: z.enum(tokenScopes),
  created_at: z.iso.datetime(),
  last_used_at: z.iso.datetime().nullable().describe("At most 60 s old; null: never used"),
  is_confirmed: z
    .boolean()
    .default(true)
    .describe("False: made while authentication was off; it counts after `berth token list --confirm`"),
  conversations: z
    .int()
    .min(0)
    .optional()
    .describe("Conversations of the chat page that are deleted with it; absent: not counted"),
});
export type TokenView = z.output<typeof tokenViewSchema>;

/** Answer of `POST /api/auth/tokens`: the only place where the secret appears. */
export const createdTokenSchema = tokenViewSchema.extend({ token: z.string(), warning: z.string() });
export type CreatedToken = z.output<typeof createdTokenSchema>;

export const tokenListSchema = z.strictObject({ object: z.literal("list"), data: z.array(tokenViewSchema) });

/** The stored part of a token. The secret has 256 random bits, so that one round of SHA-256 protects it. */
export const tokenRecordSchema = z.strictObject({
  schema: z.literal(1),
  id: tokenIdSchema,
  label: z.string(),
  scope: z.enum(tokenScopes),
  created_at: z.iso.datetime(),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
export type TokenRecord = z.output<typeof tokenRecordSchema>;

/** `<state>/auth/mode.json`: whether the last gateway required credentials. */
export const authModeSchema = z.strictObject({ schema: z.literal(1), is_enabled: z.boolean() });

export interface PresentedToken {
  readonly id: string;
  readonly secret: string;
}

/** `svc_<id>.<secret>`; undefined for any other text. */
export function parseToken(text: string): PresentedToken | undefined {
  const [, id, secret] = /^svc_([a-z0-9]{4,32})\.([A-Za-z0-9_-]{43})$/.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

/** Answer of `GET /api/auth/status`. */
export const authStatusSchema = z.strictObject({
  enabled: z.boolean(),
  modes: z.array(z.enum(["none", "token", "proxy"])),
  proxy_trusted: z.boolean().describe("The caller's own address may name a user by X-Forwarded-Email"),
});

/** Answer of `GET /api/auth/login`. */
export const loginSchema = z.strictObject({ message: z.string() });

/** Answer of `GET /api/auth/me`. */
export const meSchema = z.strictObject({
  identity: z.string(),
  scope: z.enum(tokenScopes),
  source: z.enum(["token", "proxy", "none"]),
});

/** The owner of the conversations of a token's holder. */
export function tokenOwner(tokenId: string): string {
  return `token ${tokenId}`;
}
