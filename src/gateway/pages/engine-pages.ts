import type { ClientRequest, IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import { ApiError } from "../../api/errors.ts";
import { createServer, request as openRequest } from "../../lib/node-http.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { requestIdOf, toApiError } from "../http/answer.ts";
import { discard } from "../http/body.ts";
import { ConnectionLimiter } from "../http/connection-limit.ts";
import { arrivalTimes, headerLimitBytes } from "../http/refused-bytes.ts";
import { headersForBrowser, headersForEngine, pagePath, type PageEngine } from "./engine-headers.ts";
import { EngineTimeout, failureOf, refusePage, refuseUpgrade } from "./engine-refusal.ts";

export interface EnginePagesOptions {
  /** The slots whose engine has a page here. */
  readonly slots: readonly string[];
  /** Throws ApiError `auth.*` for a caller that may not see an engine's page. */
  readonly admit: (request: IncomingMessage) => void;
  /** Whether an admitted caller's credentials are still valid. */
  readonly mayStill: (request: IncomingMessage) => boolean;
  /** The slot's engine for that request, until its lease is disposed; throws ApiError where none is loaded. */
  readonly engineOf: (
    slot: string,
    request: IncomingMessage,
  ) => { readonly engine: PageEngine; readonly lease: Disposable };
  /** A request for the slot begins; the function that is returned ends it. */
  readonly begin: (slot: string) => () => void;
  /** A request has ended, or a WebSocket. */
  readonly onEnd: (ended: EndedPageRequest) => void;
  readonly bodyLimitBytes: number;
}

/** The log and the metrics of an ended request. Its address is left out, because it may hold secrets of the engine. */
export interface EndedPageRequest {
  readonly requestId: string;
  /** The named slot that the request was for; undefined: the request was for none of them. */
  readonly slot: string | undefined;
  /** 101 for a WebSocket that was open, 499 where the browser has disconnected. */
  readonly code: number;
  readonly seconds: number;
  readonly failure: ApiError | undefined;
}

/** Connections of browsers at once: each may need one to an engine. */
const connectionLimits = { served: 256, open: 288 } as const;
/** How soon a WebSocket ends after its token was revoked. */
const recheckMs = 1000;

/** One request, or one WebSocket, until it ends. */
interface PageRequest {
  readonly request: IncomingMessage;
  readonly requestId: string;
  /** By the steady clock. */
  readonly began: number;
  /** The request is a WebSocket that the engine has opened. */
  isOpen: boolean;
  failure: ApiError | undefined;
}

type Refuse = (failure: ApiError) => void;

/** Where a request leads: its slot, and the rest of its address as the engine has it. */
interface Place {
  readonly slot: string;
  readonly engine: PageEngine;
  readonly path: string;
  /** To be disposed once the engine has nothing more to do with the request. */
  readonly lease: Disposable;
}

/**
 * Engines' own pages at `/upstream/SLOT/`, on a server of their own. What an engine sends runs in a browser: at another
 * port it has another origin than the dashboard, cannot read the dashboard's token and answers of `/api`, and is foreign
 * there. Nothing but engines is served here, and so nothing else is within an engine's reach.
 */
export class EnginePages implements AsyncDisposable {
  readonly server: Server;
  readonly #options: EnginePagesOptions;
  readonly #open = new Map<Duplex, PageRequest>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: EnginePagesOptions) {
    this.#options = options;
    const connections = new ConnectionLimiter(connectionLimits);
    this.server = createServer({ ...arrivalTimes, maxHeaderSize: headerLimitBytes }, (request, response) => {
      const pageRequest = pageRequestOf(request);
      const refuse: Refuse = (failure) => {
        pageRequest.failure ??= failure;
        refusePage(request, response, failure, pageRequest.requestId);
      };
      response.once("close", () => this.#ended(pageRequest, response.writableFinished ? response.statusCode : 499));
      try {
        const late = connections.refusal(request.socket);
        if (late !== undefined) throw late;
        this.#relay(pageRequest, response, refuse);
      } catch (error) {
        refuse(toApiError(error));
        request.resume();
      }
    });
    connections.watch(this.server);
    this.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      const late = connections.refusal(request.socket);
      const pageRequest = pageRequestOf(request);
      const refuse: Refuse = (failure) => {
        pageRequest.failure ??= failure;
        refuseUpgrade(socket, failure);
      };
      socket.on("error", () => socket.destroy());
      socket.once("close", () =>
        this.#ended(pageRequest, pageRequest.isOpen ? 101 : (pageRequest.failure?.status ?? 499)),
      );
      try {
        if (late !== undefined) throw late;
        this.#upgrade(pageRequest, { socket, head }, refuse);
      } catch (error) {
        refuse(toApiError(error));
      }
    });
    this.#timer = setInterval(() => this.#recheck(), recheckMs);
  }

  /** The WebSockets of a slot's page that are open now. */
  openSockets(slot: string): number {
    return this.#open
      .values()
      .reduce((sum, { isOpen, request }) => sum + (isOpen && slotOf(request) === slot ? 1 : 0), 0);
  }

  /** Ends every connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    for (const socket of this.#open.keys()) socket.destroy();
    if (this.server.listening) NetServer.prototype.close.call(this.server);
    this.server.closeAllConnections();
  }

  #recheck(): void {
    for (const [socket, { request }] of this.#open) if (!this.#options.mayStill(request)) socket.destroy();
  }

  #ended({ request, requestId, began, failure }: PageRequest, code: number): void {
    const slot = this.#options.slots.find((each) => each === slotOf(request));
    this.#options.onEnd({ requestId, slot, code, seconds: (steadyNow() - began) / 1000, failure });
  }

  #relay({ request, requestId }: PageRequest, response: ServerResponse, refuse: Refuse): void {
    const place = this.#placeOf(request);
    if (place === undefined) {
      response.writeHead(308, { location: pagePath(slotOf(request) ?? ""), "x-request-id": requestId });
      response.end();
      return;
    }
    const { slot, engine, path } = place;
    response.once("close", () => place.lease[Symbol.dispose]());
    const engineRequest = this.#openEngineRequest(request, place, headersForEngine(request.headers, slot, engine));
    const end = this.#options.begin(slot);
    response.once("close", () => {
      engineRequest.destroy();
      end();
    });
    const refuseFor = (error: unknown): void => refuse(failureOf(slot, error));
    engineRequest.on("error", refuseFor);
    engineRequest.on("response", (answer) => {
      try {
        const headers = headersForBrowser(answer.rawHeaders, slot, engine, path);
        response.writeHead(answer.statusCode ?? 502, [...headers, "x-request-id", requestId]);
      } catch (error) {
        engineRequest.destroy();
        refuseFor(error);
        return;
      }
      answer.on("error", () => response.destroy());
      answer.pipe(response);
    });
    this.#send(request, engineRequest, refuse);
  }

  /** The body, where there is one; a longer one than the limit is refused within. */
  #send(request: IncomingMessage, engineRequest: ClientRequest, refuse: Refuse): void {
    const { "content-length": length, "transfer-encoding": encoding } = request.headers;
    if (length === undefined && encoding === undefined) {
      engineRequest.end();
      return;
    }
    let bytes = 0;
    request.on("data", (part: Buffer) => {
      bytes += part.length;
      if (bytes <= this.#options.bodyLimitBytes || engineRequest.destroyed) return;
      request.unpipe(engineRequest);
      engineRequest.destroy();
      refuse(new ApiError("dispatch.payload_too_large"));
      discard(request);
    });
    request.pipe(engineRequest);
  }

  #upgrade(pageRequest: PageRequest, { socket, head }: { socket: Duplex; head: Buffer }, refuse: Refuse): void {
    const { request } = pageRequest;
    const place = request.headers.upgrade?.toLowerCase() === "websocket" ? this.#placeOf(request) : undefined;
    if (place === undefined)
      throw new ApiError("dispatch.invalid_request", {
        message: "only a WebSocket below /upstream/SLOT/ is opened here",
      });
    const { slot, engine, path } = place;
    // A replica that is to end does not wait for a WebSocket: a forgotten tab keeps its own open for ever.
    place.lease[Symbol.dispose]();
    const headers = { ...headersForEngine(request.headers, slot, engine), connection: "Upgrade", upgrade: "websocket" };
    const engineRequest = this.#openEngineRequest(request, place, headers);
    this.#open.set(socket, pageRequest);
    socket.once("close", () => {
      this.#open.delete(socket);
      engineRequest.destroy();
    });
    engineRequest.on("error", (error) => refuse(failureOf(slot, error)));
    engineRequest.on("response", (answer) => {
      answer.resume();
      const message = `the engine of slot ${slot} opens no WebSocket there: it answered ${answer.statusCode ?? 0}`;
      refuse(new ApiError("dispatch.upstream_failed", { message }));
    });
    engineRequest.on("upgrade", (answer, other: Duplex, first: Buffer) => {
      let named: readonly string[];
      try {
        named = headersForBrowser(answer.rawHeaders, slot, engine, path);
      } catch (error) {
        other.destroy();
        refuse(failureOf(slot, error));
        return;
      }
      let lines = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n";
      for (let at = 0; at < named.length; at += 2) lines += `${named[at]}: ${named[at + 1]}\r\n`;
      socket.write(`${lines}\r\n`);
      pageRequest.isOpen = true;
      other.on("error", () => socket.destroy());
      other.once("close", () => socket.destroy());
      socket.once("close", () => other.destroy());
      if (first.length > 0) socket.write(first);
      if (head.length > 0) other.write(head);
      other.pipe(socket);
      socket.pipe(other);
    });
    engineRequest.end();
  }

  #openEngineRequest(
    request: IncomingMessage,
    { engine, path }: Place,
    headers: ReturnType<typeof headersForEngine>,
  ): ClientRequest {
    const { host, port, timeoutMs } = engine;
    const engineRequest = openRequest({
      host,
      port,
      path,
      method: request.method ?? "GET",
      headers,
      agent: false,
      setHost: false,
    });
    // Of a WebSocket, only until it is open.
    engineRequest.setTimeout(timeoutMs, () => engineRequest.destroy(new EngineTimeout()));
    engineRequest.once("upgrade", (_, socket) => socket.setTimeout(0));
    return engineRequest;
  }

  /** Undefined: the address lacks the slash behind the slot's name. Throws ApiError for a forbidden or unknown page. */
  #placeOf(request: IncomingMessage): Place | undefined {
    this.#options.admit(request);
    const slot = slotOf(request);
    if (slot === undefined || !this.#options.slots.includes(slot))
      throw new ApiError("system.not_found", {
        message:
          slot === undefined
            ? "pages of engines are at /upstream/SLOT/"
            : `the page of the engine of slot ${slot} is not open here: SVC_ENGINE_PAGES names the slots whose engine may show one`,
      });
    const rest = (request.url ?? "").slice(pagePath(slot).length - 1);
    if (!rest.startsWith("/")) return undefined;
    return { slot, path: rest, ...this.#options.engineOf(slot, request) };
  }
}

function pageRequestOf(request: IncomingMessage): PageRequest {
  return { request, requestId: requestIdOf(request), began: steadyNow(), isOpen: false, failure: undefined };
}

function slotOf({ url = "" }: IncomingMessage): string | undefined {
  return /^\/upstream\/([a-z0-9][a-z0-9-]{0,62})(?=[/?]|$)/.exec(url)?.[1];
}
