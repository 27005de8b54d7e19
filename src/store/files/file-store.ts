import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Store, StoreConfig } from "../opened-store.ts";

/** Manifests in the configuration directory, and all other state as small files in the state directory. */
export function fileStore(config: StoreConfig): Store {
  const { stateDir } = config;
  return {
    isUnused: () => !existsSync(stateDir),
    async lead({ onWarning, ...options }) {
      const { clearOddFiles } = await import("../state/odd-files.ts");
      const { fileLeadership } = await import("../state/leadership.ts");
      const { refuseNewerFormat } = await import("../state/format.ts");
      await refuseNewerFormat(stateDir);
      await clearOddFiles(stateDir, onWarning);
      await using stack = new AsyncDisposableStack();
      const lease = stack.use(await fileLeadership(stateDir).lead(options));
      // A newer version may have led while this one waited.
      await refuseNewerFormat(stateDir);
      stack.move();
      return lease;
    },
    async leader() {
      const { fileLeadership } = await import("../state/leadership.ts");
      return await fileLeadership(stateDir).leader();
    },
    async forLeader(lease, options) {
      const { openLeaderStore } = await import("./leader-store.ts");
      return await openLeaderStore(config, lease, options);
    },
    async forGateway(options) {
      const { openGatewayStore } = await import("./gateway-store.ts");
      return await openGatewayStore(config, options);
    },
    async format() {
      const { readFormat } = await import("../state/format.ts");
      return await readFormat(stateDir);
    },
    async operator() {
      const { readOperator } = await import("../state/published.ts");
      return await readOperator(stateDir);
    },
    async hasLiveGateway() {
      const { hasLiveGateway } = await import("../state/demand.ts");
      return await hasLiveGateway(stateDir);
    },
    async tokens() {
      const { TokenStore } = await import("../auth/tokens.ts");
      return new TokenStore(stateDir);
    },
    async lastAuthMode() {
      const { lastAuthMode } = await import("../auth/token-confirmations.ts");
      return await lastAuthMode(stateDir);
    },
    async engineLock() {
      const { EngineLockFile } = await import("../state/engine-images.ts");
      return (await EngineLockFile.open(join(stateDir, "engines.lock.yaml"))).lock;
    },
  };
}
