import type { ApiClient } from "../../kubernetes/client.ts";
import type { Store, StoreConfig } from "../opened-store.ts";
import type { Lease } from "../store.ts";
import type { OpenClient } from "./cluster.ts";
import type { LeaderLease } from "./leadership.ts";

/** Custom resources of one namespace; everything else in Leases, ConfigMaps and Secrets beside them. */
export function clusterStore(config: StoreConfig, given?: OpenClient): Store {
  const openClient: OpenClient = async () => {
    const { clientOfEnvironment } = await import("./cluster.ts");
    return await (given ?? clientOfEnvironment)();
  };
  const withClient = async <T>(use: (client: ApiClient) => Promise<T>): Promise<T> => {
    using client = await openClient();
    return await use(client);
  };
  const leases = new WeakMap<Lease, { readonly lease: LeaderLease; readonly stack: AsyncDisposableStack }>();
  return {
    isUnused: () => false,
    async lead(options) {
      const { identityOf, leadByLease } = await import("./leadership.ts");
      const { releaseEndingNamespace } = await import("./finalizers.ts");
      const client = await openClient();
      try {
        const lease = await leadByLease({ ...options, client, identity: identityOf(process.env) });
        const stack = new AsyncDisposableStack();
        stack.use(client);
        stack.use(lease);
        const owned = { check: () => lease.check(), [Symbol.asyncDispose]: () => stack.disposeAsync() };
        leases.set(owned, { lease, stack });
        return owned;
      } catch (error) {
        await releaseEndingNamespace(client).catch(() => undefined);
        client[Symbol.dispose]();
        throw error;
      }
    },
    async leader() {
      const { leaderPid } = await import("./leadership.ts");
      return await withClient(leaderPid);
    },
    async forLeader(lease, options) {
      const { openClusterLeaderStore } = await import("./leader-store.ts");
      const led = leases.get(lease);
      if (led === undefined) throw new Error("this lease is another store's");
      const { store, owned } = await openClusterLeaderStore(config, led.lease, { ...options, openClient });
      led.stack.use(owned);
      return store;
    },
    async forGateway(options) {
      const { openClusterGatewayStore } = await import("./gateway-store.ts");
      const { gatewayName } = await import("./names.ts");
      const gateway = gatewayName(process.env, options.gateway);
      return await openClusterGatewayStore(config, { ...options, gateway, openClient });
    },
    // Custom resources carry their own versions.
    format: async () => undefined,
    async operator() {
      const { recordOf } = await import("./leadership.ts");
      const { readLease } = await import("../../kubernetes/lease-election.ts");
      const { operatorLease } = await import("./names.ts");
      const view = await withClient((client) => readLease(client, operatorLease));
      const record = recordOf(view);
      return record && { record, liveness: view?.holder !== undefined && view.isFresh(new Date()) ? "live" : "stale" };
    },
    async hasLiveGateway() {
      const { hasLiveGatewayLease } = await import("./demand.ts");
      return await withClient(hasLiveGatewayLease);
    },
    async tokens() {
      const { openOwnTokens } = await import("./tokens.ts");
      return await openOwnTokens(config.stateDir, openClient);
    },
    async lastAuthMode() {
      const { lastAuthModeOf } = await import("./tokens.ts");
      return await lastAuthModeOf(openClient);
    },
    async engineLock() {
      const { EngineLockFile } = await import("../state/engine-images.ts");
      return (await EngineLockFile.open(`${config.stateDir}/engines.lock.yaml`)).lock;
    },
  };
}
