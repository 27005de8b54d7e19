import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openApiClient, type ApiClient } from "../../../src/kubernetes/client.ts";
import { readKubeconfig } from "../../../src/kubernetes/kubeconfig.ts";
import { clusterStore } from "../../../src/store/kubernetes/cluster-store.ts";
import type { Store } from "../../../src/store/opened-store.ts";
import { tempDir } from "../temp-dir.ts";

export interface StoresOfNamespace extends AsyncDisposable {
  readonly namespace: string;
  /** As another process would open it: with a state directory of its own. */
  open(): Store;
  client(): Promise<ApiClient>;
}

/** Stores of one namespace, each as a process of its own would have it. */
export async function storesOf(kubeconfig: string, namespace: string): Promise<StoresOfNamespace> {
  const directory = await tempDir();
  const client = async (): Promise<ApiClient> =>
    openApiClient(await readKubeconfig({ KUBECONFIG: kubeconfig, POD_NAMESPACE: namespace }));
  let count = 0;
  await mkdir(join(directory.path, "config"));
  return {
    namespace,
    client,
    open() {
      count += 1;
      const stateDir = join(directory.path, `state-${count}`);
      const config = {
        store: "kubernetes",
        stateDir,
        configDir: join(directory.path, "config"),
        readOnly: false,
      } as const;
      return clusterStore(config, client);
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}
