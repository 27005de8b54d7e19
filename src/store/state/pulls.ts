import { knownPart } from "../../api/known-part.ts";
import {
  publishedPullsSchema,
  pullRequestSchema,
  type PublishedPulls,
  type PullRequest,
  type PullStatus,
} from "../../api/pull.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { OpenDocuments } from "../documents.ts";

/** `<state>/pulls/`: requests to fetch models, one file each, and how the operator says that they stand. */
export interface PullStore extends AsyncDisposable {
  requests(): readonly PullRequest[];
  request(id: string): PullRequest | undefined;
  put(request: PullRequest): Promise<void>;
  /** The operator has seen it through. */
  remove(id: string): Promise<void>;
  published(): readonly PullStatus[];
  publish(pulls: readonly PullStatus[]): Promise<void>;
  /** Calls `onChange` with the ids of requests that came, changed or went; with none where the published ones changed. */
  watch(onChange: (ids: readonly string[]) => void): Disposable;
}

const statusName = "status";

/** Used by both sides: a gateway asks, the operator fetches and publishes. */
export async function openPullStore(open: OpenDocuments): Promise<PullStore> {
  const subscribers = new Subscribers<[ids: readonly string[]]>();
  const documents = await open<PullRequest | PublishedPulls>("pulls", {
    parse: (value) => knownPart(publishedPullsSchema, value) ?? pullRequestSchema.safeParse(value).data,
    onChange: (names) => subscribers.notify(names.filter((name) => name !== statusName)),
  });
  const request = (id: string): PullRequest | undefined => {
    const value = documents.get(id);
    return value !== undefined && "id" in value && value.id === id ? value : undefined;
  };
  return {
    requests: () => [...documents.values()].flatMap(([name]) => request(name) ?? []),
    request,
    put: (value) => documents.put(value.id, pullRequestSchema.parse(value), { isLasting: true }),
    remove: (id) => documents.delete(id),
    published() {
      const value = documents.get(statusName);
      return value !== undefined && "pulls" in value ? value.pulls : [];
    },
    publish: (pulls) => documents.put(statusName, { schema: 1, pulls: [...pulls] }, { isLasting: false, isKept: true }),
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => documents[Symbol.asyncDispose](),
  };
}
