import { isStatus } from "../../kubernetes/api-error.ts";
import { ListWatch } from "../../kubernetes/list-watch.ts";
import type { ListWatchOptions } from "../../kubernetes/list-watch-options.ts";

/**
 * A collection that has been listed. Rejects where the API server refuses the list: rights or a CRD are missing, which
 * waiting does not mend. An API server that does not answer is waited for.
 */
export async function follow(options: ListWatchOptions): Promise<ListWatch> {
  const refused = Promise.withResolvers<never>();
  const watch = ListWatch.start({
    ...options,
    onError: (error) => {
      if (isStatus(error, 401, 403, 404)) refused.reject(error);
      options.onError?.(error);
    },
  });
  try {
    await Promise.race([watch.synced(), refused.promise]);
  } catch (error) {
    await watch[Symbol.asyncDispose]();
    throw error;
  }
  // A later refusal has no one who waits for it.
  refused.promise.catch(() => undefined);
  return watch;
}
