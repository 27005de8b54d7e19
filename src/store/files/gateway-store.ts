import { noteAuthMode } from "../auth/token-confirmations.ts";
import { TokenStore } from "../auth/tokens.ts";
import { openSet } from "../document-set.ts";
import { documentsInFiles } from "../documents.ts";
import { sets } from "../sets.ts";
import { openSharedSets } from "../shared-sets.ts";
import { openDemandWriter } from "../state/demand.ts";
import { otherDemandFiles } from "../state/other-demand.ts";
import { DiscoveredStore } from "../state/discovered.ts";
import { refuseNewerFormat } from "../state/format.ts";
import { clearOddFiles } from "../state/odd-files.ts";
import { OpenUpstreams } from "../state/open-upstreams.ts";
import { openPublished } from "../state/published.ts";
import { removalRecorder } from "../state/removals.ts";
import { requestStore } from "../state/requests.ts";
import type { GatewayStore, GatewayStoreOptions, StoreConfig } from "../opened-store.ts";
import type { ManifestWriterOptions } from "./manifest-writer.ts";
import type { ManifestWriter } from "./writer.ts";

/** The store of a gateway. */
export async function openGatewayStore(config: StoreConfig, options: GatewayStoreOptions): Promise<GatewayStore> {
  const { stateDir, configDir } = config;
  const { gateway, onWarning, onUnknown, onDiscoveredError } = options;
  await using stack = new AsyncDisposableStack();
  await refuseNewerFormat(stateDir);
  await clearOddFiles(stateDir, onWarning);
  const demand = await openDemandWriter(stateDir, gateway);
  const published = stack.use(await openPublished(stateDir, { onUnknown }));
  const discovered = stack.use(await DiscoveredStore.open(stateDir, { onError: onDiscoveredError }));
  const tokens = stack.use(new TokenStore(stateDir));
  const open = documentsInFiles(stateDir);
  const requests = stack.use(requestStore(await openSet(open, sets.slotRequests)));
  const shared = await openSharedSets(open, stack);
  const owned = stack.move();
  return {
    published,
    demand,
    others: otherDemandFiles(stateDir, gateway),
    requests,
    ...shared,
    discovered,
    openUpstreams: new OpenUpstreams(stateDir),
    tokens,
    noteAuthMode: (isEnabled) => noteAuthMode(stateDir, isEnabled),
    writer: manifestWriter({ configDir, isReadOnly: config.readOnly, removals: removalRecorder(stateDir) }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Loads the writer and its parsers at the first use: most gateways never need them. */
function manifestWriter(options: ManifestWriterOptions): ManifestWriter {
  let opened: Promise<ManifestWriter> | undefined;
  const writer = (): Promise<ManifestWriter> =>
    (opened ??= import("./manifest-writer.ts").then(({ openManifestWriter }) => openManifestWriter(options)));
  return {
    readOnlyReason: async () => await (await writer()).readOnlyReason(),
    create: async (...given) => await (await writer()).create(...given),
    replace: async (...given) => await (await writer()).replace(...given),
    set: async (...given) => await (await writer()).set(...given),
    specHash: async (...given) => await (await writer()).specHash(...given),
    source: async (...given) => await (await writer()).source(...given),
    specOf: async (...given) => await (await writer()).specOf(...given),
    writeSource: async (...given) => await (await writer()).writeSource(...given),
    remove: async (...given) => await (await writer()).remove(...given),
  };
}
