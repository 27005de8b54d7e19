import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import type { Config } from "../../api/config.ts";
import { localUrl } from "../../lib/listen-address.ts";
import type { Listeners } from "./listeners.ts";

/**
 * The chat page has relative addresses, so that it works at `/chat/` of this server, at `/` of a port of its own, and
 * wherever a proxy puts that. What it asks of `/v1` and `/api` comes below the page's own directory therefore.
 */
export class ChatAddress {
  readonly #sockets = new WeakSet<Socket>();

  /** A connection to the chat page's own port. */
  note(socket: Socket): void {
    this.#sockets.add(socket);
  }

  /** The address that this server knows for what the request names. */
  rewrite({ url = "/", socket }: Pick<IncomingMessage, "url" | "socket">): string {
    if (this.#sockets.has(socket)) {
      if (/^\/(?:\?|$)/.test(url)) return `/chat${url}`;
      if (url.startsWith("/assets/")) return `/chat${url}`;
    }
    return /^\/chat\/(?:v1|api)\//.test(url) ? url.slice("/chat".length) : url;
  }
}

/** Listens on SVC_CHAT_PORT too. Without that port the page is at `/chat/` all the same, so that a warning is enough. */
export async function listenForChat(
  { host, chatPort }: Pick<Config, "host" | "chatPort">,
  listeners: Listeners,
  chat: ChatAddress,
  log: Logger,
): Promise<void> {
  if (chatPort === 0) return;
  const failure = await listeners.also({ host, port: chatPort }, (socket) => chat.note(socket));
  if (failure === undefined) log.info(`the chat page listens on ${localUrl(host, chatPort)}`);
  else log.warn(`${failure.message}: the chat page is at /chat/ alone; SVC_CHAT_PORT names another port, 0 none`);
}
