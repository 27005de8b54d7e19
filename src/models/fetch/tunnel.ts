import { connect as connectPlain, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Proxy } from "./proxies.ts";

const headLimitBytes = 16_384;

/** Connects to a proxy. */
export function connectToProxy({ url }: Proxy, onConnect: () => void, more: object = {}): Socket {
  const isTls = url.protocol === "https:";
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
  if (!isTls) return connectPlain({ ...more, host, port }, onConnect);
  return connectTls({ ...more, host, port, ...(isIP(host) === 0 ? { servername: host } : {}) }, onConnect);
}

/**
 * Has a proxy connect to the address's host, for TLS. Returns the connection to the proxy; `onOpen` is called with the
 * reason where the proxy refuses, and without one when the connection leads to the host.
 */
export function openTunnel(proxy: Proxy, { hostname, port }: URL, onOpen: (refusal?: string) => void): Socket {
  const target = `${hostname}:${port === "" ? 443 : port}`;
  let head = Buffer.alloc(0);
  const socket = connectToProxy(proxy, () => {
    const { authorization } = proxy;
    const credentials = authorization === undefined ? "" : `proxy-authorization: ${authorization}\r\n`;
    socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${credentials}\r\n`);
  });
  const onData = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    if (!head.includes("\r\n\r\n") && head.length < headLimitBytes) return;
    socket.off("data", onData);
    const status = /^HTTP\/1\.[01] (\d{3})/.exec(head.toString("latin1"))?.[1];
    if (status === "200") onOpen();
    else onOpen(refusalOf(status, target));
  };
  socket.on("data", onData);
  return socket;
}

function refusalOf(status: string | undefined, target: string): string {
  if (status === undefined) return `answers no HTTP to CONNECT ${target}`;
  const hint = status === "407" ? ": it asks for credentials, as in HTTPS_PROXY=http://user:password@host:port" : "";
  return `refuses to connect to ${target} (HTTP ${status})${hint}`;
}
