import { ApiError } from "../../api/errors.ts";
import { canonicalJson } from "../../lib/canonical.ts";

/** Fields that run code or reach files of this machine (DECISIONS 1). */
const execFields = [
  "command",
  "args",
  "image",
  "imageDigest",
  "mounts",
  "devices",
  "podTemplate",
  "workingDir",
] as const;

/**
 * With authentication off the API is open to the network, and these fields run code: they are for the manifest, unless
 * SVC_API_EXEC=1. What stays as it is may be sent along. Throws ApiError `auth.forbidden` that names the file.
 */
export function guardExecFields(
  spec: Readonly<Record<string, unknown>>,
  before: Readonly<Record<string, unknown>>,
  { isAllowed, file }: { isAllowed: boolean; file: string },
): void {
  if (isAllowed) return;
  const [touched] = [...execFields.filter((field) => differs(spec[field], before[field])), ...secretsIn(spec, before)];
  if (touched === undefined) return;
  throw new ApiError("auth.forbidden", {
    message: `${touched} may not be written over the API: edit ${file}, or start with SVC_API_EXEC=1`,
    details: { path: touched.split("."), file },
  });
}

function differs(now: unknown, before: unknown): boolean {
  return now !== undefined && canonicalJson(now) !== canonicalJson(before ?? null);
}

function secretsIn(spec: Readonly<Record<string, unknown>>, before: Readonly<Record<string, unknown>>): string[] {
  const env = entriesOf(spec["env"]);
  const known = new Map(entriesOf(before["env"]));
  return env
    .filter(([name, value]) => typeof value === "object" && differs(value, known.get(name)))
    .map(([name]) => `env.${name}`);
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}
