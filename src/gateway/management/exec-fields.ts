import { ApiError } from "../../api/errors.ts";
import { directoryOfKind, type Kind } from "../../api/names.ts";
import { reaching, type Reaching } from "../../api/reach.ts";
import { isInnerHost } from "../../lib/inner-addresses.ts";
import { canonicalJson } from "../../lib/canonical.ts";
import type { ManifestWriter, ManifestChange, Written } from "../../store/files/writer.ts";

type Spec = Readonly<Record<string, unknown>>;

/** How often a write is judged again because somebody has changed the declaration meanwhile. */
const tries = 5;

/**
 * Writes a declaration over the one that `judge` has accepted: what is declared now, which may be another than what is
 * in force. `before`: its spec, complete where it is valid; `file` is where it is or will be. Rejects as `judge` does.
 */
export async function writeJudged(
  writer: ManifestWriter,
  kind: Kind,
  name: string,
  change: ManifestChange,
  judge: (before: Spec, file: string) => void | Promise<void>,
): Promise<Written> {
  for (let left = tries; ; left -= 1) {
    const before = await writer.source(kind, name);
    await judge(before?.spec ?? {}, before?.file ?? `${directoryOfKind[kind]}/${name}.toml`);
    try {
      return before === undefined
        ? await writer.create(kind, name, change)
        : await writer.replace(kind, name, { ...change, over: before.hash });
    } catch (error) {
      const isOther =
        error instanceof ApiError && (error.code === "config.changed" || error.code === "slot.already_exists");
      if (!isOther || left <= 1) throw error;
    }
  }
}

/**
 * With authentication off the API is open to the network, and some fields run code or name files (`slotReach`; in `env`
 * plain values too, since NODE_OPTIONS, LD_PRELOAD and the like are code): they belong in the manifest, unless
 * SVC_API_EXEC=1. An unchanged value may be sent; leaving a value out removes it. Throws ApiError `auth.forbidden` that
 * names the file.
 */
export function guardExecFields(
  spec: Spec,
  before: Spec,
  { isAllowed, file }: { isAllowed: boolean; file: string },
): void {
  if (isAllowed) return;
  const now = byPath(reaching(spec));
  const known = byPath(reaching(before));
  const gone = [...known]
    .filter(([key, { mayGo }]) => !mayGo && !now.has(key))
    .map(([, { path }]) => ({ path, value: undefined }));
  const touched = [...now.values(), ...gone].find(({ path, value }) => differs(value, known.get(pathKey(path))?.value));
  if (touched === undefined) return;
  throw new ApiError("auth.forbidden", {
    message: `${touched.path.join(".")} may not be written over the API: edit ${file}, or start with SVC_API_EXEC=1`,
    details: { path: touched.path, file },
  });
}

function byPath(values: readonly Reaching[]): ReadonlyMap<string, Reaching> {
  return new Map(values.map((each) => [pathKey(each.path), each]));
}

function pathKey(path: readonly string[]): string {
  return path.join("\0");
}

function differs(now: unknown, before: unknown): boolean {
  return canonicalJson(now ?? null) !== canonicalJson(before ?? null);
}

/**
 * The same for a provider's key: a caller who chooses its source and its address could read any variable of the gateway
 * and many files. Throws ApiError `auth.forbidden` that names the file.
 */
export function guardKeySource(
  spec: Spec,
  before: Spec,
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

/**
 * Where everybody may write a provider, its address must not lead to a service of this machine, nor to a cloud's
 * metadata: the gateway would send the requests. Names that resolve there later are refused at the connection. Throws
 * ApiError `auth.forbidden`.
 */
export function guardAddress(
  { baseUrl }: Spec,
  before: Spec,
  { isAllowed, file }: { isAllowed: boolean; file: string },
): void {
  const host = typeof baseUrl === "string" ? URL.parse(baseUrl)?.hostname : undefined;
  if (isAllowed || host === undefined || baseUrl === before["baseUrl"] || !isInnerHost(host)) return;
  throw new ApiError("auth.forbidden", {
    message: `baseUrl may not lead to this machine or to its metadata over the API while authentication is off: edit ${file}, or start with SVC_API_EXEC=1`,
    details: { path: ["baseUrl"], file },
  });
}
