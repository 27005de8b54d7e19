import { isStatus } from "../../kubernetes/api-error.ts";
import type { ApiClient } from "../../kubernetes/client.ts";
import { texts } from "../../kubernetes/object.ts";
import { isRecord } from "../../lib/record.ts";
import { DiscoveredStore } from "../state/discovered.ts";
import { OpenUpstreams } from "../state/open-upstreams.ts";
import type { GatewayStore, GatewayStoreOptions, StoreConfig } from "../opened-store.ts";
import { openSharedSets } from "../shared-sets.ts";
import { followSlots, openCluster, type OpenClient } from "./cluster.ts";
import { openDemandLease } from "./demand.ts";
import { corePath, fieldManager, tokensSecret } from "./names.ts";
import { openOtherLeases } from "./other-leases.ts";
import { openPublishedObjects } from "./published.ts";
import { openRequests } from "./requests.ts";
import { noteAuthModeIn, openTokenSecret, SecretTokens } from "./tokens.ts";
import { objectWriter } from "./writer.ts";

/** The store of a gateway in a cluster. Models that providers list are found anew by each gateway. */
export async function openClusterGatewayStore(
  { stateDir }: StoreConfig,
  options: GatewayStoreOptions & { readonly openClient: OpenClient },
): Promise<GatewayStore> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await openCluster(options.openClient, options.onWarning));
  const { client, maps, onError } = cluster;
  const slots = stack.use(await followSlots(client, onError));
  const published = stack.use(
    await openPublishedObjects({
      client,
      maps,
      secrets: cluster.bearers,
      onUnknown: options.onUnknown,
      onError,
      slots: slots.watched,
      onSlots: (listener) => slots.watch(listener),
    }),
  );
  const secret = stack.use(await openTokenSecret(client, onError));
  const tokens = stack.use(await SecretTokens.open(stateDir, secret, onError));
  const requests = stack.use(await openRequests(client, slots, maps));
  const shared = await openSharedSets(maps, stack);
  const discovered = stack.use(await DiscoveredStore.open(stateDir, { onError: options.onDiscoveredError }));
  const others = stack.use(await openOtherLeases(client, options.gateway, onError));
  const demand = openDemandLease(client, options.gateway);
  const owned = stack.move();
  return {
    published,
    demand,
    others,
    requests,
    ...shared,
    discovered,
    openUpstreams: new OpenUpstreams(stateDir),
    tokens,
    readSecret: (name, key) => readSecretKey(client, name, key),
    noteAuthMode: (isEnabled) => noteAuthModeIn(secret, isEnabled),
    writer: objectWriter(client),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * The value of a key of a person's Secret; undefined without such a Secret or key. Rejects with ApiError, and for Secrets of
 * Berth or of service accounts: whoever may write an Upstream must not have them sent to an address of their own.
 */
export async function readSecretKey(client: ApiClient, name: string, key: string): Promise<string | undefined> {
  let object: unknown;
  try {
    object = await client.request("GET", `${corePath("secrets", client.namespace)}/${encodeURIComponent(name)}`);
  } catch (error) {
    if (isStatus(error, 404)) return undefined;
    throw error;
  }
  if (!isRecord(object) || !isRecord(object["data"])) return undefined;
  const labels = isRecord(object["metadata"]) ? texts(object["metadata"]["labels"]) : {};
  const isOwn = name === tokensSecret || labels["app.kubernetes.io/managed-by"] === fieldManager;
  if (isOwn || object["type"] === "kubernetes.io/service-account-token")
    throw new Error("it is a Secret of Berth or of a service account; name one of your own");
  const value = object["data"][key];
  return typeof value === "string" ? Buffer.from(value, "base64").toString() : undefined;
}
