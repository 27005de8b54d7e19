import type { SecretPlaces } from "../../lib/secret-file.ts";

export interface DockerRuntimeOptions {
  readonly stateDir: string;
  /** Neither directory may be mounted into a container; models, which may be in the state directory, may be. */
  readonly configDir?: string;
  readonly modelsDir?: string;
  /** The name of this installation on the daemon, which others may share. */
  readonly instance: string;
  /** As the environment variable `DOCKER_HOST`: `unix:///path` of a Docker or Podman socket. */
  readonly dockerHost?: string | undefined;
  /** The files that `valueFrom.file` may name; absent: any but a service account's. */
  readonly secrets?: SecretPlaces;
  /** Mounts of `/`, `/proc`, the daemon's socket and the like are not refused. */
  readonly isUnrestricted?: boolean;
  /** A larger log is moved to `.1` and starts empty. */
  readonly logBytes?: number;
  /** The environment for registry credentials: `DOCKER_CONFIG`, `HOME`. */
  readonly env?: NodeJS.ProcessEnv;
  /** The time limit of a read from the daemon. */
  readonly listTimeoutMs?: number;
  /** Aborting ends the wait for the daemon's first answer. */
  readonly signal?: AbortSignal;
}
