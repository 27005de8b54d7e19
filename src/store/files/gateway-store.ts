import { noteAuthMode } from "../auth/token-confirmations.ts";
import { TokenStore } from "../auth/tokens.ts";
import { documentsInFiles } from "../documents.ts";
import { ConversationThread } from "../state/conversation-thread.ts";
import { openDemandWriter } from "../state/demand.ts";
import { otherDemandFiles } from "../state/other-demand.ts";
import { DiscoveredStore } from "../state/discovered.ts";
import { refuseNewerFormat } from "../state/format.ts";
import { openGroupStore } from "../state/groups.ts";
import { openHardwareStore } from "../state/hardware.ts";
import { openModelTaskStore } from "../state/model-tasks.ts";
import { openPullStore } from "../state/pulls.ts";
import { clearOddFiles } from "../state/odd-files.ts";
import { OpenUpstreams } from "../state/open-upstreams.ts";
import { openPublished } from "../state/published.ts";
import { openRequestStore } from "../state/requests.ts";
import type { GatewayStore, GatewayStoreOptions, StoreConfig } from "../opened-store.ts";
import { ManifestThread } from "./thread/manifest-thread.ts";

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
  const manifests = stack.use(new ManifestThread());
  const conversations = stack.use(new ConversationThread(stateDir));
  const requests = stack.use(await openRequestStore(stateDir));
  const hardware = stack.use(await openHardwareStore(documentsInFiles(stateDir)));
  const groups = stack.use(await openGroupStore(documentsInFiles(stateDir)));
  const pulls = stack.use(await openPullStore(documentsInFiles(stateDir)));
  const modelTasks = stack.use(await openModelTaskStore(documentsInFiles(stateDir)));
  const owned = stack.move();
  return {
    published,
    demand,
    others: otherDemandFiles(stateDir, gateway),
    requests,
    hardware,
    groups,
    pulls,
    modelTasks,
    discovered,
    openUpstreams: new OpenUpstreams(stateDir),
    tokens,
    conversations,
    noteAuthMode: (isEnabled) => noteAuthMode(stateDir, isEnabled),
    manifests,
    writer: manifests.writer({ configDir, stateDir, isReadOnly: config.readOnly }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
