import { isAbsolute, join } from "node:path";
import { errorMessage } from "../lib/error-code.ts";
import { parseJson } from "../lib/json.ts";
import { programOutput } from "../lib/program-output.ts";
import { isRecord } from "../lib/record.ts";
import { NoConnection, type Connection } from "./connection.ts";

const limitMs = 60_000;
/** A token is replaced this long before it expires. */
const earlyMs = 30_000;

/**
 * A token from the program that a kubeconfig names, kept until it expires:
 * https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
 */
export function execCredential(
  exec: Readonly<Record<string, unknown>>,
  dir: string,
  cluster: { readonly server: string; readonly ca: string | undefined },
): Connection["authorization"] {
  const named = exec["command"];
  if (typeof named !== "string") throw new NoConnection("exec in the kubeconfig names no command");
  // A path with a slash is relative to the kubeconfig, a bare name is found on PATH.
  const command = named.includes("/") && !isAbsolute(named) ? join(dir, named) : named;
  const args = strings(exec["args"]);
  const entries: readonly unknown[] = Array.isArray(exec["env"]) ? exec["env"] : [];
  const variables = entries.flatMap((entry) =>
    isRecord(entry) ? [[String(entry["name"]), String(entry["value"])] as const] : [],
  );
  const apiVersion = typeof exec["apiVersion"] === "string" ? exec["apiVersion"] : "client.authentication.k8s.io/v1";
  const info = { apiVersion, kind: "ExecCredential", spec: { interactive: false, cluster: clusterInfo(cluster) } };
  let known: { readonly header: string; readonly untilMs: number } | undefined;
  let running: Promise<string> | undefined;
  const readHeader = async (): Promise<string> => {
    const env = { ...process.env, ...Object.fromEntries(variables), KUBERNETES_EXEC_INFO: JSON.stringify(info) };
    const signal = AbortSignal.timeout(limitMs);
    const stdout = await programOutput(command, args, { env, signal }).catch((error: unknown) => {
      const message = `${command}, which the kubeconfig names for credentials, failed: ${errorMessage(error)}`;
      throw new NoConnection(message, { cause: error });
    });
    const answer = parseJson(stdout);
    const status = isRecord(answer) && isRecord(answer["status"]) ? answer["status"] : {};
    const { token, expirationTimestamp } = status;
    if (typeof token !== "string")
      throw new NoConnection(`${command}, which the kubeconfig names for credentials, gave no token`);
    const expires = typeof expirationTimestamp === "string" ? Date.parse(expirationTimestamp) - earlyMs : Infinity;
    known = { header: `Bearer ${token}`, untilMs: expires };
    return known.header;
  };
  return async (isRefused) => {
    if (known !== undefined && !isRefused && Date.now() < known.untilMs) return known.header;
    // Requests that are sent together wait for one run of the program: it may ask a person, or a service that counts.
    running ??= readHeader().finally(() => (running = undefined));
    return await running;
  };
}

function clusterInfo({ server, ca }: { readonly server: string; readonly ca: string | undefined }): object {
  return { server, ...(ca === undefined ? {} : { "certificate-authority-data": ca }) };
}

function strings(value: unknown): readonly string[] {
  const list: readonly unknown[] = Array.isArray(value) ? value : [];
  return list.map(String);
}
