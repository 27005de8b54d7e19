import { z } from "zod";

/** A user name that basic auth and X-Forwarded-Email can carry, and that needs no quotes in a Caddyfile. */
export const adminUserSchema = z.string().regex(/^[A-Za-z0-9._@+-]{1,64}$/, "1 to 64 letters, digits and . _ @ + -");

/** bcrypt reads 72 bytes and stops at a NUL: the rest of a longer password would not count. */
export const adminPasswordSchema = z
  .string()
  .refine((text) => text.length >= 8, "at least 8 characters")
  .refine((text) => new TextEncoder().encode(text).length <= 72, "at most 72 bytes")
  .refine((text) => !text.includes("\0"), "text without NUL");

/** The edge proxy's user as the state directory keeps it: never the password. */
export const adminRecordSchema = z.strictObject({
  schema: z.literal(1),
  user: adminUserSchema,
  bcrypt: z.string().regex(/^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/),
});
export type AdminRecord = z.output<typeof adminRecordSchema>;
