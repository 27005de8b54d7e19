export interface ConfigPlaces {
  readonly isRoot: boolean;
  readonly home: string | undefined;
  /** `XDG_CONFIG_HOME`, `XDG_STATE_HOME`. */
  readonly xdgConfigHome: string | undefined;
  readonly xdgStateHome: string | undefined;
}

/** `/etc/berth` as root, else the XDG directory. Undefined without a home directory. */
export function defaultConfigDir(places: ConfigPlaces): string | undefined {
  if (places.isRoot) return "/etc/berth";
  const base = places.xdgConfigHome ?? (places.home === undefined ? undefined : `${places.home}/.config`);
  return base === undefined ? undefined : `${base}/berth`;
}

/** `/var/lib/berth` as root, else the XDG directory. Undefined without a home directory. */
export function defaultStateDir(places: ConfigPlaces): string | undefined {
  if (places.isRoot) return "/var/lib/berth";
  const base = places.xdgStateHome ?? (places.home === undefined ? undefined : `${places.home}/.local/state`);
  return base === undefined ? undefined : `${base}/berth`;
}
