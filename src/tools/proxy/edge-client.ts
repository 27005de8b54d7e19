import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import type { TLSSocket } from "node:tls";
import { parseJson } from "../../lib/json.ts";
import { request as httpRequest } from "../../lib/node-http.ts";
import { isRecord } from "../../lib/record.ts";

export interface EdgeAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** The code of the error envelope; empty without one. */
  readonly code: string;
}

export interface EdgeTarget {
  readonly url: URL;
  /** Connects to this address rather than to the name's own. */
  readonly address: { readonly host: string; readonly port: number } | undefined;
  /** PEM of the root certificate; absent: the system's trusted roots. */
  readonly root: string | undefined;
  readonly isVerifying: boolean;
}

const limitMs = 10_000;

/** One request through the proxy, without keep-alive. Rejects with the error that broke the connection. */
export async function askEdge(
  target: EdgeTarget,
  path: string,
  headers: Record<string, string> = {},
): Promise<EdgeAnswer> {
  const response = await open(target, path, headers);
  let body = "";
  response.setEncoding("utf8");
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode ?? 0, headers: response.headers, body, code: codeOf(body) };
}

/** Resolves with the first bytes of an endless body. Rejects when none arrive in time. */
export async function firstBytes(
  target: EdgeTarget,
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number; bytes: string }> {
  const response = await open(target, path, headers);
  const limit = setTimeout(() => response.destroy(new Error("no byte arrived in time")), limitMs);
  try {
    for await (const chunk of response) return { status: response.statusCode ?? 0, bytes: String(chunk) };
    return { status: response.statusCode ?? 0, bytes: "" };
  } finally {
    clearTimeout(limit);
    response.destroy();
  }
}

/** The issuer of the proxy's certificate, and the end of its validity. */
export async function certificateOf(target: EdgeTarget): Promise<{ issuer: string; validTo: string }> {
  const response = await open(target, "/api/status", {});
  const socket: unknown = response.socket;
  response.resume();
  if (!isTls(socket)) return { issuer: "nobody", validTo: "-" };
  const { issuer, valid_to: validTo } = socket.getPeerCertificate();
  const name = [issuer.O ?? issuer.CN ?? "nobody"].flat().join(", ");
  return { issuer: name, validTo };
}

function isTls(socket: unknown): socket is TLSSocket {
  return typeof socket === "object" && socket !== null && "getPeerCertificate" in socket;
}

async function open(target: EdgeTarget, path: string, headers: Record<string, string>): Promise<IncomingMessage> {
  const { url, address, root, isVerifying } = target;
  const isTls = url.protocol === "https:";
  const name = url.hostname.replace(/^\[|\]$/g, "");
  const options = {
    host: address?.host ?? name,
    port: address?.port ?? Number(url.port || (isTls ? 443 : 80)),
    path,
    headers: { ...headers, host: url.host },
    agent: false,
    timeout: limitMs,
  } as const;
  return await new Promise((resolve, reject) => {
    const request = isTls
      ? httpsRequest(
          {
            ...options,
            // An address is no name of a server: the certificate is compared with the address itself.
            servername: isIP(name) === 0 ? name : "",
            rejectUnauthorized: isVerifying,
            ...(root === undefined ? {} : { ca: root }),
          },
          resolve,
        )
      : httpRequest(options, resolve);
    request.once("error", reject);
    request.once("timeout", () => request.destroy(new Error("no answer in time")));
    request.end();
  });
}

function codeOf(body: string): string {
  const parsed = parseJson(body);
  const error = isRecord(parsed) ? parsed["error"] : undefined;
  return isRecord(error) && "code" in error ? String(error["code"]) : "";
}
