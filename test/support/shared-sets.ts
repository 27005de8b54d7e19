import { openSet } from "../../src/store/document-set.ts";
import { documentsInFiles } from "../../src/store/documents.ts";
import { sets } from "../../src/store/sets.ts";
import { openSharedSets, type SharedSets } from "../../src/store/shared-sets.ts";
import { requestStore } from "../../src/store/state/requests.ts";
import type { RequestStore } from "../../src/store/store.ts";

export interface TestSets extends SharedSets, AsyncDisposable {
  readonly requests: RequestStore;
}

/** The documents of a state directory, as another process has them. */
export async function sharedSets(stateDir: string): Promise<TestSets> {
  await using stack = new AsyncDisposableStack();
  const open = documentsInFiles(stateDir);
  const requests = stack.use(requestStore(await openSet(open, sets.slotRequests)));
  const shared = await openSharedSets(open, stack);
  const owned = stack.move();
  return { ...shared, requests, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
