import { isDeepStrictEqual } from "node:util";
import { stringify } from "yaml";
import { diagnosticLine } from "../../api/diagnostic.ts";
import { apiVersion, type Kind } from "../../api/names.ts";
import { ApiError } from "../../api/errors.ts";
import { ApiError as ServerError, isStatus } from "../../kubernetes/api-error.ts";
import { patchTypes, type ApiClient } from "../../kubernetes/client.ts";
import { readObject, type KubeObject } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { sha256 } from "../../lib/canonical.ts";
import { manifestLimitBytes } from "../files/manifest-limit.ts";
import { readManifests } from "../files/manifest.ts";
import { judgeSpec } from "../judged-spec.ts";
import type { ManifestWriter, ManifestChange, Written } from "../files/writer.ts";
import { collectionOf, objectName } from "./names.ts";

/** The API's own field manager: what a person applies with kubectl or Git is not this one's. */
const manager = "berth-api";
/** How often a write is repeated because another writer has changed the object meanwhile. */
const tries = 5;

/** Writes custom resources for a person who uses the management API. The API server's rules decide. */
export function objectWriter(client: ApiClient): ManifestWriter {
  const pathOf = (kind: Kind, name: string): string => `${collectionOf(kind, client.namespace)}/${name}`;
  const get = async (kind: Kind, name: string): Promise<KubeObject | undefined> => {
    try {
      return readObject(await client.request("GET", pathOf(kind, name)));
    } catch (error) {
      if (isStatus(error, 404)) return undefined;
      throw error;
    }
  };
  const bodyOf = (kind: Kind, name: string, { spec, labels }: ManifestChange): object => ({
    apiVersion,
    kind,
    metadata: { name, ...(labels === undefined ? {} : { labels }) },
    spec,
  });
  const written = (outcome: Written["outcome"], kind: Kind, answer: unknown): Written => {
    const object = readObject(answer);
    return { outcome, specHash: object === undefined ? undefined : hashOf(kind, object) };
  };
  const create = async (kind: Kind, name: string, change: ManifestChange): Promise<Written> => {
    const query = { fieldManager: manager, fieldValidation: "Strict" };
    const path = collectionOf(kind, client.namespace);
    const answer = await client.request("POST", path, { query, body: bodyOf(kind, name, change) }).catch(explain);
    return written("created", kind, answer);
  };
  /** Rejects with `config.changed` where the object is another by now. */
  const put = async (kind: Kind, { meta, value }: KubeObject, change: ManifestChange): Promise<Written> => {
    const { name, labels, generation } = meta;
    const query = { fieldManager: manager, fieldValidation: "Strict" };
    // Whole: what is left out here, such as an owner, would be deleted.
    const known = isRecord(value["metadata"]) ? value["metadata"] : {};
    const metadata = { ...known, labels: change.labels ?? labels };
    const body = { ...bodyOf(kind, name, change), metadata };
    const answer = await client.request("PUT", pathOf(kind, name), { query, body }).catch((error: unknown) => {
      if (isStatus(error, 409)) throw changed(kind, name);
      return explain(error);
    });
    const now = readObject(answer)?.meta;
    // Not by the version: the first write over an object without a status stores the kind's default status with it.
    const isSame = generation !== undefined && now?.generation === generation && isDeepStrictEqual(now.labels, labels);
    return written(isSame ? "unchanged" : "changed", kind, answer);
  };
  const replace = (kind: Kind, name: string, change: ManifestChange): Promise<Written> =>
    unlessChanged(async () => {
      const before = await get(kind, name);
      if (change.over !== undefined && (before === undefined || sha256(textOf(kind, before)) !== change.over))
        throw changed(kind, name);
      return before === undefined ? await create(kind, name, change) : await put(kind, before, change);
    });
  const present = async (kind: Kind, name: string): Promise<KubeObject> => {
    const object = await get(kind, name);
    if (object === undefined) throw new ApiError("slot.not_found", { message: `${name} has no manifest` });
    return object;
  };
  return {
    readOnlyReason: () => Promise.resolve(undefined),
    create,
    replace,
    async source(kind, name) {
      const object = await get(kind, name);
      if (object === undefined) return undefined;
      const text = textOf(kind, object);
      const spec = object.value["spec"] ?? {};
      const judged = judgeSpec(kind, name, spec);
      const declared = judged.isWellFormed ? judged.spec : isRecord(spec) ? spec : {};
      return { file: objectName(kind, name), text, hash: sha256(text), spec: { ...declared } };
    },
    specOf: async (kind, name, text) => declaredIn(kind, name, text).spec,
    async writeSource(kind, name, { text, hash }) {
      const { spec, labels } = declaredIn(kind, name, text);
      await unlessChanged(async () => {
        const object = await present(kind, name);
        if (sha256(textOf(kind, object)) !== hash) throw changed(kind, name);
        return await put(kind, object, { spec, labels });
      });
    },
    async set(kind, name, path, value) {
      const spec = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
      const query = { fieldManager: manager, fieldValidation: "Strict" };
      const call = { query, body: { spec }, contentType: patchTypes.merge };
      await client.request("PATCH", pathOf(kind, name), call).catch(explain);
    },
    async specHash(kind, name) {
      const object = await get(kind, name);
      return object === undefined ? undefined : hashOf(kind, object);
    },
    async remove(kind, name) {
      try {
        await client.request("DELETE", pathOf(kind, name));
        return true;
      } catch (error) {
        if (isStatus(error, 404)) return false;
        return explain(error);
      }
    },
  };
}

function hashOf(kind: Kind, { meta, value }: KubeObject): string | undefined {
  const judged = judgeSpec(kind, meta.name, value["spec"] ?? {});
  return judged.isWellFormed ? judged.specHash : undefined;
}

/** Repeats a write over an object that was read anew: the operator writes its status into the same object. */
async function unlessChanged<T>(write: () => Promise<T>): Promise<T> {
  for (let left = tries; ; left -= 1) {
    try {
      return await write();
    } catch (error) {
      if (left <= 1 || !(error instanceof ApiError) || error.code !== "config.changed") throw error;
    }
  }
}

function changed(kind: Kind, name: string): ApiError {
  return new ApiError("config.changed", {
    message: `${objectName(kind, name)} was changed meanwhile: nothing was written`,
  });
}

/** The part of an object that a person writes. */
function textOf(kind: Kind, { meta, value }: KubeObject): string {
  const { name, labels } = meta;
  return stringify({ apiVersion, kind, metadata: { name, labels }, spec: value["spec"] ?? {} });
}

/** The resource that a text declares. Throws ApiError `config.invalid`. */
function declaredIn(
  kind: Kind,
  name: string,
  text: string,
): { readonly spec: Readonly<Record<string, unknown>>; readonly labels: Readonly<Record<string, string>> } {
  const file = `${objectName(kind, name)}.yaml`;
  if (Buffer.byteLength(text) > manifestLimitBytes)
    throw new ApiError("config.invalid", { message: `${file}: would be larger than 1 MiB, the limit of a manifest` });
  const [declaration, ...others] = readManifests(file, text);
  if (declaration?.spec === undefined) {
    const { line, column, message = "is invalid", path = [] } = declaration?.diagnostics[0] ?? {};
    const details = { file, line: line ?? null, column: column ?? null, path: [...path], message };
    throw new ApiError("config.invalid", { message: diagnosticLine({ file, line, column, message }), details });
  }
  if (others.length > 0 || declaration.kind !== kind || declaration.name !== name)
    throw new ApiError("config.invalid", { message: `${file}: must declare ${name} and nothing else` });
  return { spec: { ...declaration.spec }, labels: declaration.labels };
}

/** The API server's refusal in the words of the management API. */
function explain(error: unknown): never {
  if (!(error instanceof ServerError)) throw error;
  const { status, message } = error;
  if (status === 404) throw new ApiError("slot.not_found", { message });
  if (status === 409) throw new ApiError("slot.already_exists", { message });
  if (status === 403) throw new ApiError("config.read_only", { message });
  if (status === 400 || status === 422) throw new ApiError("config.invalid", { message });
  throw error;
}
