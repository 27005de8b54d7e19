import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { parseJson } from "../../lib/json.ts";
import { programOutput } from "../../lib/program-output.ts";
import { isRecord } from "../../lib/record.ts";

/** The daemon's credentials for a registry. */
export type RegistryAuth =
  | { readonly username: string; readonly password: string; readonly serveraddress: string }
  | { readonly identitytoken: string; readonly serveraddress: string };

/** Docker Hub's name in the configuration file, for historical reasons. */
const hub = "https://index.docker.io/v1/";

/** A credential helper may wait for a person, or leave a program behind that keeps its output open. */
const helperMs = 10_000;

/** The registry of a reference: its first part if that looks like a host, else Docker Hub. */
export function registryOf(image: string): string {
  const [first = "", ...rest] = image.split("/");
  const isHost = rest.length > 0 && (/[.:]/.test(first) || first === "localhost");
  return isHost && first !== "docker.io" && first !== "index.docker.io" ? first : hub;
}

/**
 * The credentials of `docker login` for the image's registry, in `$DOCKER_CONFIG/config.json` or
 * `~/.docker/config.json`: `auths`, or the credential helper that the file names. Undefined without any; an unreadable
 * file counts as none, and the registry reports the missing credentials. Aborting ends the helper, which may wait for a
 * person; so does its time limit.
 */
export async function registryAuth(
  image: string,
  env: NodeJS.ProcessEnv = process.env,
  signal?: AbortSignal,
  limitMs = helperMs,
): Promise<RegistryAuth | undefined> {
  const registry = registryOf(image);
  const config = await readConfig(
    join(env["DOCKER_CONFIG"] || join(env["HOME"] || homedir(), ".docker"), "config.json"),
  );
  const helper = textIn(objectIn(config, "credHelpers"), registry) ?? textIn(config, "credsStore");
  if (helper !== undefined) {
    const limit = AbortSignal.timeout(limitMs);
    const ended = signal === undefined ? limit : AbortSignal.any([signal, limit]);
    const found = await askHelper(helper, registry, env, ended);
    if (found !== undefined) return found;
  }
  const auths = objectIn(config, "auths");
  const entry = objectIn(auths, registry) ?? objectIn(auths, entryKey(registry, auths));
  const identitytoken = textIn(entry, "identitytoken");
  if (identitytoken !== undefined) return { identitytoken, serveraddress: registry };
  const [username = "", ...password] = Buffer.from(textIn(entry, "auth") ?? "", "base64")
    .toString()
    .split(":");
  return username === "" ? undefined : { username, password: password.join(":"), serveraddress: registry };
}

/** Older versions of `docker login` stored a URL, such as `https://ghcr.io/v1/`. */
function entryKey(registry: string, auths: object | undefined): string {
  const hostOf = (key: string): string => key.replace(/^https?:\/\//, "").replace(/\/.*$/, "");
  return Object.keys(auths ?? {}).find((key) => hostOf(key) === registry) ?? registry;
}

async function readConfig(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** Uses the protocol of https://github.com/docker/docker-credential-helpers: the registry in, JSON out. */
async function askHelper(
  name: string,
  registry: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<RegistryAuth | undefined> {
  if (!/^[\w.-]+$/.test(name)) return undefined;
  const options = { env, input: registry, signal };
  const said = await programOutput(`docker-credential-${name}`, ["get"], options).catch(() => "");
  return parseHelper(said, registry);
}

function parseHelper(said: string, serveraddress: string): RegistryAuth | undefined {
  const answer = parseJson(said);
  const username = textIn(answer, "Username");
  const secret = textIn(answer, "Secret");
  if (username === undefined || secret === undefined) return undefined;
  return username === "<token>"
    ? { identitytoken: secret, serveraddress }
    : { username, password: secret, serveraddress };
}

function objectIn(value: unknown, key: string): object | undefined {
  const found = isRecord(value) ? value[key] : undefined;
  return isRecord(found) ? found : undefined;
}

function textIn(value: unknown, key: string): string | undefined {
  const found = isRecord(value) ? value[key] : undefined;
  return typeof found === "string" && found !== "" ? found : undefined;
}
