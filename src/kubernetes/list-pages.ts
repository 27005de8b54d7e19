import { isRecord } from "../lib/record.ts";
import type { ApiClient } from "./client.ts";

export interface Collection {
  /** `/apis/berth.dev/v1alpha1/namespaces/x/slots`. */
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

const pageSize = 500;

export interface PageReader {
  readonly signal: AbortSignal;
  /** Before each request. */
  readonly onPage: () => void;
  readonly onItem: (item: unknown) => void;
}

/** Reads all of a collection, page by page. Returns the version of the list. */
export async function listPages(
  client: ApiClient,
  { path, labelSelector, fieldSelector }: Collection,
  { signal, onPage, onItem }: PageReader,
): Promise<string> {
  let next: string | undefined;
  for (;;) {
    onPage();
    const query = { limit: pageSize, continue: next, labelSelector, fieldSelector };
    const page = await client.request("GET", path, { query, signal });
    if (!isRecord(page) || !Array.isArray(page["items"]) || !isRecord(page["metadata"]))
      throw new Error(`${path}: the answer is no list`);
    for (const item of page["items"]) onItem(item);
    const { continue: more, resourceVersion } = page["metadata"];
    next = typeof more === "string" && more !== "" ? more : undefined;
    if (next === undefined) return String(resourceVersion);
  }
}
