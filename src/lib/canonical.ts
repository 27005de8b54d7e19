import { createHash } from "node:crypto";

/** JSON with sorted keys and without undefined members: equal values give equal text. */
export function canonicalJson(value: unknown): string {
  return (
    JSON.stringify(value, (_key, member: unknown) => {
      if (typeof member !== "object" || member === null || Array.isArray(member)) return member;
      return Object.fromEntries(Object.entries(member).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
    }) ?? "null"
  );
}

/** Lower-case hexadecimal SHA-256 of the text's UTF-8. */
export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
