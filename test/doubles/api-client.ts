import { ApiError } from "../../src/kubernetes/api-error.ts";
import type { ApiClient, Call, Method } from "../../src/kubernetes/client.ts";
import { isRecord } from "../../src/lib/record.ts";

type Value = Readonly<Record<string, unknown>>;

/** The objects of a namespace in memory, with lists and watches as far as Berth uses them. */
export class ApiDouble implements ApiClient {
  readonly namespace = "berth";
  readonly server = "https://double";
  /** Each request, as `GET /path`. */
  readonly seen: string[] = [];
  /** Called before each request is sent: it may wait, or throw the server's refusal. */
  before: (method: Method, path: string) => Promise<void> | void = () => undefined;
  readonly #objects = new Map<string, Value>();
  readonly #watches = new Set<{ readonly collection: string; readonly tell: (line: string) => void }>();
  #version = 0;

  get(path: string): Value | undefined {
    return this.#objects.get(path);
  }

  /** As another client would write it; undefined deletes. */
  put(path: string, value: Value | undefined): void {
    const before = this.#objects.get(path);
    this.#version += 1;
    const [collection = "", name = ""] = path.split(/\/(?=[^/]*$)/);
    const { uid = `uid-${this.#version}` } = metaOf(before);
    // Whatever else the former object had is gone, as by a PUT.
    const metadata = { uid, ...metaOf(value), name };
    const object = { ...(value ?? before), metadata: { ...metadata, resourceVersion: String(this.#version) } };
    if (value === undefined) this.#objects.delete(path);
    else this.#objects.set(path, object);
    const type = value === undefined ? "DELETED" : before === undefined ? "ADDED" : "MODIFIED";
    for (const watch of this.#watches)
      if (watch.collection === collection) watch.tell(JSON.stringify({ type, object }));
  }

  async request(method: Method, path: string, { body, query = {}, check }: Call = {}): Promise<unknown> {
    this.seen.push(`${method} ${path}`);
    await this.before(method, path);
    check?.();
    const target = path.replace(/\/status$/, "");
    const known = this.#objects.get(target);
    if (method === "GET") return known ?? this.#list(path, query["fieldSelector"]);
    if (method === "DELETE") {
      const { preconditions } = isRecord(body) ? body : {};
      refuseOther(path, known, preconditions);
      this.put(target, undefined);
      return { kind: "Status" };
    }
    if (!isRecord(body)) throw new ApiError(400, "BadRequest", "no body");
    const isApplied = query["fieldManager"] !== undefined && query["force"] === true;
    const isUpdate = method === "PUT" || (method === "PATCH" && !isApplied);
    if (isUpdate && known === undefined) throw new ApiError(404, "NotFound", path);
    if (method === "PATCH" || method === "PUT") refuseOther(path, known, metaOf(body));
    const place = method === "POST" ? `${path}/${String(metaOf(body)["name"])}` : target;
    // A status is one atomic value (the CRDs say so).
    const isWhole = path.endsWith("/status") && isApplied;
    const before = isWhole ? { ...known, status: undefined } : (known ?? {});
    this.put(place, method === "PATCH" ? merged(before, body) : body);
    return this.#objects.get(place);
  }

  async lines(path: string, { signal }: Pick<Call, "signal"> = {}): Promise<AsyncIterable<string>> {
    this.seen.push(`WATCH ${path}`);
    const waiting: string[] = [];
    let wake = Promise.withResolvers<void>();
    const watch = {
      collection: path,
      tell: (line: string) => {
        waiting.push(line);
        wake.resolve();
      },
    };
    const watches = this.#watches.add(watch);
    signal?.addEventListener("abort", () => wake.resolve(), { once: true });
    return (async function* () {
      try {
        while (signal?.aborted !== true) {
          yield* waiting.splice(0);
          await wake.promise;
          wake = Promise.withResolvers();
        }
      } finally {
        watches.delete(watch);
      }
    })();
  }

  [Symbol.dispose](): void {
    this.#watches.clear();
  }

  #list(path: string, fieldSelector: unknown): unknown {
    const items = [...this.#objects].flatMap(([at, object]) => {
      const isIn = at.startsWith(`${path}/`) && !at.slice(path.length + 1).includes("/");
      const name = String(metaOf(object)["name"]);
      const isOther = String(fieldSelector).startsWith("metadata.name!=") && fieldSelector !== `metadata.name!=${name}`;
      const isMeant = fieldSelector === undefined || isOther || fieldSelector === `metadata.name=${name}`;
      return isIn && isMeant ? [object] : [];
    });
    if (
      items.length === 0 &&
      !/\/(slots|models|upstreams|slotgroups|configmaps|secrets|leases|events|pods)$/.test(path)
    )
      throw new ApiError(404, "NotFound", path);
    return { items, metadata: { resourceVersion: String(this.#version) } };
  }
}

/** Refuses a request that names a uid or a version that the object does not have. */
function refuseOther(path: string, known: Value | undefined, wanted: unknown): void {
  if (known === undefined || !isRecord(wanted)) return;
  for (const field of ["uid", "resourceVersion"])
    if (wanted[field] !== undefined && wanted[field] !== metaOf(known)[field])
      throw new ApiError(409, "Conflict", `the ${field} of ${path} is another`);
}

function metaOf(object: Value | undefined): Value {
  return isRecord(object) && isRecord(object["metadata"]) ? object["metadata"] : {};
}

/** A merge patch: null removes. */
function merged(base: unknown, patch: unknown): Value {
  const from = isRecord(base) ? base : {};
  const into: Record<string, unknown> = { ...from };
  for (const [key, value] of Object.entries(isRecord(patch) ? patch : {}))
    if (value === null) delete into[key];
    else into[key] = isRecord(value) ? merged(from[key], value) : value;
  return into;
}
