import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { errorMessage } from "../lib/error-code.ts";
import { readText } from "../lib/read-text.ts";
import { steadyNow } from "../lib/steady-clock.ts";

/** How to reach one API server as one user. */
export interface Connection {
  /** With a path where the API server is behind one; without a slash at its end. */
  readonly server: string;
  /** The namespace that this installation works in. */
  readonly namespace: string;
  readonly tls: {
    readonly ca?: string;
    readonly cert?: string;
    readonly key?: string;
    readonly servername?: string;
    readonly rejectUnauthorized?: boolean;
  };
  /** The header of that name; undefined: the certificate says who asks. `isRefused`: the last value was answered by 401. */
  authorization(isRefused: boolean): Promise<string | undefined>;
}

/** There is no usable way to the API server: the message names the place and the cause. */
export class NoConnection extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "NoConnection";
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The files that KUBECONFIG names; undefined where it is empty, which names none. */
export function namedKubeconfig(env: Environment): string | undefined {
  return env["KUBECONFIG"] === "" ? undefined : env["KUBECONFIG"];
}

/** The directory that the kubelet mounts into every Pod with a service account. */
export const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The kubelet replaces a token an hour before it expires. */
const tokenAgeMs = 60_000;

/** In a Pod the service account's; elsewhere that of KUBECONFIG, or of ~/.kube/config. Throws NoConnection. */
export async function connect(env: Environment, account = accountDir): Promise<Connection> {
  const host = env["KUBERNETES_SERVICE_HOST"];
  if (namedKubeconfig(env) !== undefined || host === undefined) {
    const { readKubeconfig } = await import("./kubeconfig.ts");
    return await readKubeconfig(env);
  }
  const [ca, ownNamespace] = await Promise.all(
    ["ca.crt", "namespace"].map((name) =>
      readFile(join(account, name), "utf8").catch((error: unknown) => {
        throw new NoConnection(
          `the service account of this Pod cannot be read: ${errorMessage(error)}; is automountServiceAccountToken off?`,
          { cause: error },
        );
      }),
    ),
  );
  const bare = host.includes(":") ? `[${host}]` : host;
  const namespace = env["POD_NAMESPACE"] ?? ownNamespace?.trim() ?? "default";
  return {
    server: `https://${bare}:${env["KUBERNETES_SERVICE_PORT"] ?? "443"}`,
    namespace,
    tls: ca === undefined ? {} : { ca },
    authorization: tokenFrom(join(account, "token")),
  };
}

/** Reads the file again once a minute, and after a refusal: its token is replaced while this process runs. */
export function tokenFrom(path: string): Connection["authorization"] {
  let known: { readonly header: string; readonly atMs: number } | undefined;
  return async (isRefused) => {
    if (known !== undefined && !isRefused && steadyNow() - known.atMs < tokenAgeMs) return known.header;
    const token = (await readText(path).catch(() => undefined))?.trim() ?? "";
    // A file that cannot be read now may be replaced at this moment: the last token is still good.
    if (token === "") return known?.header;
    known = { header: `Bearer ${token}`, atMs: steadyNow() };
    return known.header;
  };
}
