import { fileStore } from "./files/file-store.ts";
import { clusterStore } from "./kubernetes/cluster-store.ts";
import type { Store, StoreConfig } from "./opened-store.ts";

/** The one place where a store is chosen. Nothing is read or created yet: each part is loaded when it is needed. */
export function openStore(config: StoreConfig): Store {
  switch (config.store) {
    case "files":
      return fileStore(config);
    case "kubernetes":
      return clusterStore(config);
    default:
      return config.store satisfies never;
  }
}
