import { access, readFile } from "node:fs/promises";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { parse } from "yaml";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import { isRecord } from "../lib/record.ts";
import { namedKubeconfig, NoConnection, tokenFrom, type Connection, type Environment } from "./connection.ts";
import { execCredential } from "./exec-credential.ts";

type Part = Readonly<Record<string, unknown>>;

/** A named entry, and the directory that its relative paths begin at. */
interface Entry {
  readonly value: Part;
  readonly dir: string;
}

/**
 * The connection of the current context, from the files of KUBECONFIG or ~/.kube/config. As for kubectl, of several files
 * the first that has a name counts, those that are missing are left out, and an empty KUBECONFIG is none.
 */
export async function readKubeconfig(env: Environment): Promise<Connection> {
  const home = env["HOME"];
  const named = namedKubeconfig(env) ?? (home === undefined ? "" : join(home, ".kube", "config"));
  const paths = named.split(":").filter((path) => path !== "");
  if (paths.length === 0) throw new NoConnection("no cluster: set KUBECONFIG, or run in a Pod with a service account");
  const present = (await Promise.all(paths.map(async (path) => ((await isMissing(path)) ? [] : [path])))).flat();
  const files = await Promise.all((present.length === 0 ? paths : present).map(readFileOf));
  const texts = files.map(({ root }) => text(root["current-context"]));
  const current = texts.find((name) => name !== undefined);
  if (current === undefined)
    throw new NoConnection(`${named} has no current-context; kubectl config use-context sets it`);
  const find = (list: string, member: string, name: string | undefined): Entry => {
    for (const { root, dir } of files) {
      const entries: readonly unknown[] = Array.isArray(root[list]) ? root[list] : [];
      for (const entry of entries)
        if (isRecord(entry) && entry["name"] === name && isRecord(entry[member])) return { value: entry[member], dir };
    }
    throw new NoConnection(`${named} has no entry ${name ?? ""} in ${list}`);
  };
  const context = find("contexts", "context", current).value;
  const cluster = find("clusters", "cluster", text(context["cluster"]));
  const user = find("users", "user", text(context["user"]));
  const server = text(cluster.value["server"]);
  if (server === undefined) throw new NoConnection(`${named}: cluster ${text(context["cluster"]) ?? ""} has no server`);
  // A token and the values of Secrets would be readable on the way.
  if (URL.parse(server)?.protocol !== "https:")
    throw new NoConnection(`${named}: the server ${server} of the cluster is no https:// address`);
  const [ca, cert, key] = await Promise.all([
    content(cluster, "certificate-authority"),
    content(user, "client-certificate"),
    content(user, "client-key"),
  ]);
  const servername = text(cluster.value["tls-server-name"]);
  const isUnchecked = cluster.value["insecure-skip-tls-verify"] === true;
  return {
    server: server.replace(/\/+$/, ""),
    namespace: env["POD_NAMESPACE"] ?? text(context["namespace"]) ?? "default",
    tls: {
      ...(ca === undefined ? {} : { ca }),
      ...(cert === undefined ? {} : { cert }),
      ...(key === undefined ? {} : { key }),
      ...(servername === undefined ? {} : { servername }),
      ...(isUnchecked ? { rejectUnauthorized: false } : {}),
    },
    authorization: authorizationOf(user, { server, ca: text(cluster.value["certificate-authority-data"]) }),
  };
}

async function isMissing(path: string): Promise<boolean> {
  return await access(path).then(
    () => false,
    (error: unknown) => errorCode(error) === "ENOENT",
  );
}

async function readFileOf(path: string): Promise<{ readonly root: Part; readonly dir: string }> {
  try {
    const root: unknown = parse(await readFile(path, "utf8"));
    if (!isRecord(root)) throw new Error("no mapping at its top");
    return { root, dir: dirname(resolve(path)) };
  } catch (error) {
    throw new NoConnection(`${path} cannot be used as a kubeconfig: ${errorMessage(error)}`, { cause: error });
  }
}

function authorizationOf(user: Entry, cluster: { readonly server: string; readonly ca: string | undefined }) {
  const { value, dir } = user;
  const token = text(value["token"]);
  const tokenFile = text(value["tokenFile"]);
  const name = text(value["username"]);
  if (tokenFile !== undefined) return tokenFrom(placed(tokenFile, dir));
  if (token !== undefined) return () => Promise.resolve(`Bearer ${token}`);
  if (name !== undefined) {
    const basic = Buffer.from(`${name}:${text(value["password"]) ?? ""}`).toString("base64");
    return () => Promise.resolve(`Basic ${basic}`);
  }
  if (isRecord(value["exec"])) return execCredential(value["exec"], dir, cluster);
  if (value["auth-provider"] !== undefined)
    throw new NoConnection("auth-provider in the kubeconfig: Kubernetes 1.26 removed it; use exec");
  return () => Promise.resolve(undefined);
}

/** A field's text: within the kubeconfig (`NAME-data`, in base64), or in the file that `NAME` names. */
async function content({ value, dir }: Entry, name: string): Promise<string | undefined> {
  const data = text(value[`${name}-data`]);
  if (data !== undefined) return Buffer.from(data, "base64").toString();
  const path = text(value[name]);
  if (path === undefined) return undefined;
  return await readFile(placed(path, dir), "utf8").catch((error: unknown) => {
    throw new NoConnection(`${name} of the kubeconfig cannot be read: ${errorMessage(error)}`, { cause: error });
  });
}

const placed = (path: string, dir: string): string => (isAbsolute(path) ? path : join(dir, path));

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
