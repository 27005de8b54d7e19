import assert from "node:assert/strict";
import { loadConfig } from "../../../src/api/config.ts";
import type { Method } from "../../../src/kubernetes/client.ts";
import { openClusterLeaderStore } from "../../../src/store/kubernetes/leader-store.ts";
import type { LeaderStore } from "../../../src/store/opened-store.ts";
import { LeadershipLost } from "../../../src/store/store.ts";
import { ApiDouble } from "../../doubles/api-client.ts";
import { tempDir } from "../../support/temp-dir.ts";

export const namespacePath = "/api/v1/namespaces/berth";
const nothing = (): void => undefined;

/** The store of an operator that leads, over a double of the API server. */
export interface Leader extends AsyncDisposable {
  readonly api: ApiDouble;
  readonly store: LeaderStore;
  /** Another operator takes over while this request is on its way. */
  readonly loseAt: (method: Method, path: string) => void;
}

export async function leader(api = new ApiDouble()): Promise<Leader> {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir());
  let isLost = false;
  const check = (): void => {
    if (isLost) throw new LeadershipLost();
  };
  const lease = { check, publish: async () => undefined, [Symbol.asyncDispose]: async () => undefined };
  const paths = { SVC_STATE_DIR: directory.path, SVC_CONFIG_DIR: directory.path, SVC_MODELS_DIR: directory.path };
  const places = { isRoot: false, home: directory.path, xdgConfigHome: undefined, xdgStateHome: undefined };
  const { config } = loadConfig({ ...paths, SVC_STORE: "kubernetes" }, {}, places);
  assert.ok(config !== undefined);
  api.put(namespacePath, { status: { phase: "Active" } });
  const openClient = (): Promise<ApiDouble> => Promise.resolve(api);
  const options = { onWarning: nothing, onUnknown: nothing, openClient };
  const { store, owned } = await openClusterLeaderStore(config, lease, options);
  stack.use(owned);
  const all = stack.move();
  return {
    api,
    store,
    loseAt(method, path) {
      api.before = (asked, at) => {
        if (asked === method && at === path) isLost = true;
      };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
