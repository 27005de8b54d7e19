import { join } from "node:path";
import { defaultConfigDir, defaultStateDir, type ConfigPlaces } from "../../api/config-places.ts";

/** Every place of an installation from a release. Absolute paths. */
export interface Layout {
  /** Root's, for all users, with units of the system; otherwise one user's own, with units of the user's manager. */
  readonly isSystem: boolean;
  /** The releases, each in a directory called as its version, and `current`, a link to one of them. */
  readonly prefix: string;
  readonly current: string;
  /** The link on the PATH, which leads through `current`. */
  readonly command: string;
  readonly configDir: string;
  readonly stateDir: string;
  /** Settings and secrets, one `NAME=value` per line. */
  readonly environmentFile: string;
  readonly unitsDir: string;
  /** The record of all that the installation has made, for updates and for the removal. */
  readonly record: string;
}

/** The places of root's installation, or of this user's. Undefined for a user without a home directory. */
export function layoutOf(places: ConfigPlaces): Layout | undefined {
  const { isRoot, home } = places;
  const configDir = defaultConfigDir(places);
  const stateDir = defaultStateDir(places);
  if (configDir === undefined || stateDir === undefined || (!isRoot && home === undefined)) return undefined;
  const own = isRoot ? "/usr" : join(home ?? "/", ".local");
  const prefix = join(own, "lib/berth");
  return {
    isSystem: isRoot,
    prefix,
    current: join(prefix, "current"),
    command: isRoot ? "/usr/local/bin/berth" : join(own, "bin/berth"),
    configDir,
    stateDir,
    environmentFile: isRoot ? "/etc/default/berth" : `${configDir}.env`,
    unitsDir: isRoot ? "/etc/systemd/system" : join(configDir, "../systemd/user"),
    record: join(prefix, "installed.json"),
  };
}
