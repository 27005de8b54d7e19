import type { AdminRecord } from "../api/admin.ts";
import { isAdmin, keepAdmin, readAdmin } from "./auth/admin.ts";
import type { StoreConfig } from "./opened-store.ts";

/** The user of the edge proxy on this machine, in the state directory whatever the store is. */
export interface AdminStore {
  read(): Promise<AdminRecord | undefined>;
  /** Whether this user is kept, with this password. */
  has(user: string, password: string): Promise<boolean>;
  /** Keeps only a hash of the password. */
  keep(user: string, password: string): Promise<AdminRecord>;
}

/** Separate from `open.ts`: a gateway must not be able to hash a password, which takes a quarter of a second. */
export function openAdmin({ stateDir }: Pick<StoreConfig, "stateDir">): AdminStore {
  return {
    read: () => readAdmin(stateDir),
    has: (user, password) => isAdmin(stateDir, user, password),
    keep: (user, password) => keepAdmin(stateDir, user, password),
  };
}
