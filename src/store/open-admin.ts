import type { AdminRecord } from "../api/admin.ts";
import { keepAdmin, readAdmin } from "./auth/admin.ts";
import type { StoreConfig } from "./opened-store.ts";

/** The edge proxy's user. */
export interface AdminStore {
  read(): Promise<AdminRecord | undefined>;
  /** Keeps only a hash of the password. */
  keep(user: string, password: string): Promise<AdminRecord>;
}

/** Separate from `open.ts`: a gateway must not be able to hash a password, which takes a quarter of a second. */
export function openAdmin({ store, stateDir }: StoreConfig): AdminStore {
  if (store !== "files") throw new Error("this version has no store in Kubernetes");
  return { read: () => readAdmin(stateDir), keep: (user, password) => keepAdmin(stateDir, user, password) };
}
