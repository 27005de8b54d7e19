import { ApiError } from "../../api/errors.ts";
import { canonicalJson } from "../../lib/canonical.ts";

/** Fields that run code or reach files of this machine (DECISIONS 1); `env` beside them, variable by variable. */
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
 * SVC_API_EXEC=1. What stays as it is may be sent along; leaving it out takes it away. Throws ApiError `auth.forbidden`
 * that names the file.
 */
export function guardExecFields(
  spec: Readonly<Record<string, unknown>>,
  before: Readonly<Record<string, unknown>>,
  { isAllowed, file }: { isAllowed: boolean; file: string },
): void {
  if (isAllowed) return;
  const [touched] = [...execFields.filter((field) => differs(spec[field], before[field])), ...envIn(spec, before)];
  if (touched === undefined) return;
  throw new ApiError("auth.forbidden", {
    message: `${touched} may not be written over the API: edit ${file}, or start with SVC_API_EXEC=1`,
    details: { path: touched.split("."), file },
  });
}

function differs(now: unknown, before: unknown): boolean {
  return canonicalJson(now ?? []) !== canonicalJson(before ?? []);
}

/** Plain values too: NODE_OPTIONS, LD_PRELOAD and their like are code. */
function envIn(spec: Readonly<Record<string, unknown>>, before: Readonly<Record<string, unknown>>): string[] {
  const known = new Map(entriesOf(before["env"]));
  return entriesOf(spec["env"])
    .filter(([name, value]) => differs(value, known.get(name)))
    .map(([name]) => `env.${name}`);
}

/**
 * The same for a provider's key: whoever names its source and where it is sent may read any variable of the gateway and
 * many files. Throws ApiError `auth.forbidden` that names the file.
 */
export function guardKeySource(
  spec: Readonly<Record<string, unknown>>,
  before: Readonly<Record<string, unknown>>,
  { isAllowed, file }: { isAllowed: boolean; file: string },
): void {
  const { auth, baseUrl } = spec;
  const isSigned = typeof auth === "object" && auth !== null && "valueFrom" in auth;
  if (isAllowed || !isSigned || (!differs(auth, before["auth"]) && !differs(baseUrl, before["baseUrl"]))) return;
  throw new ApiError("auth.forbidden", {
    message: `auth.valueFrom may not be written over the API while authentication is off: edit ${file}, or start with SVC_API_EXEC=1`,
    details: { path: ["auth", "valueFrom"], file },
  });
}

function entriesOf(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}
