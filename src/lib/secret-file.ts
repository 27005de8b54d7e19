import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { readSmallText, UnfitFile } from "./small-file.ts";
import { isWithin } from "./within.ts";

/** The files that a manifest may name as the place of a secret. */
export interface SecretPlaces {
  /** The directory that has them; undefined: any directory. */
  readonly below: string | undefined;
  /** Files and directories that are never read. */
  readonly never: readonly string[];
}

/** Where Pods have tokens of their service account, and where the kernel shows a program's environment. */
const neverRead = [
  "/proc",
  "/run/secrets/kubernetes.io",
  "/var/run/secrets/kubernetes.io",
  "/var/run/secrets/eks.amazonaws.com",
  "/var/run/secrets/azure",
];

const anywhere: SecretPlaces = { below: undefined, never: [] };

/** The places of an installation: Berth's own files are no secrets of an engine or a provider. */
export function secretPlaces({
  secretsDir,
  stateDir,
  configDir,
}: {
  readonly secretsDir?: string | undefined;
  readonly stateDir: string;
  readonly configDir: string;
}): SecretPlaces {
  return { below: secretsDir, never: [stateDir, `${configDir}/berth.toml`] };
}

/**
 * The file itself behind the path and its links. Rejects with UnfitFile where no manifest may name it, or with the
 * system's error. Says nothing of a file outside of the directory, not even whether it is there.
 */
export async function secretFile(path: string, { below, never }: SecretPlaces = anywhere): Promise<string> {
  const refuse = (): never => {
    throw new UnfitFile(
      below === undefined
        ? "it is a file of Berth itself or of a service account"
        : `only files below ${below} are read (SVC_SECRETS_DIR)`,
    );
  };
  if (below !== undefined && !isWithin(resolve(path), resolve(below))) refuse();
  const real = await realpath(path);
  if (below !== undefined && !isWithin(real, await realpath(below))) refuse();
  for (const each of [...never, ...neverRead]) if (isWithin(real, await realOf(each))) refuse();
  return real;
}

/** The text of such a file. Rejects as `secretFile` and `readSmallText` do. */
export async function readSecretFile(path: string, limitBytes: number, places?: SecretPlaces): Promise<string> {
  return await readSmallText(await secretFile(path, places), limitBytes);
}

/** A directory that is not there has no files, and its name may be a link's later. */
async function realOf(path: string): Promise<string> {
  return await realpath(path).catch(() => resolve(path));
}
