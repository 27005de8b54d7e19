import { readFileSync } from "node:fs";

/** The version in package.json, beside `src` and `dist` alike. */
export const version: string = readVersion();

function readVersion(): string {
  const parsed: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return typeof parsed === "object" && parsed !== null && "version" in parsed ? String(parsed.version) : "unknown";
}
