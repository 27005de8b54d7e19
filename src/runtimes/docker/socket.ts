const usual = "/var/run/docker.sock";

/**
 * The socket of `DOCKER_HOST`, or the default one. Undefined for a daemon on another machine: its 127.0.0.1 and its
 * files are not those of this machine.
 */
export function socketPath(dockerHost: string | undefined): string | undefined {
  if (dockerHost === undefined || dockerHost === "") return usual;
  return dockerHost.startsWith("unix://") ? dockerHost.slice("unix://".length) || usual : undefined;
}

/** Why a `DOCKER_HOST` without a socket path cannot be used, and the alternative. */
export function elsewhere(dockerHost: string): string {
  return `DOCKER_HOST=${dockerHost}: only a daemon of this machine can be used, as unix:///path`;
}
