/** A DOUBLE of an engine with its own page: a service worker, a WebSocket that echoes, redirects and cookies; no model. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { serve } from "../support/listen.ts";
import { json, readBody } from "./wire.ts";

export interface PageEngineDouble extends AsyncDisposable {
  readonly port: number;
  /** The headers of every request and of every opened WebSocket, in order. */
  readonly calls: readonly {
    readonly method: string;
    readonly url: string;
    readonly headers: IncomingMessage["headers"];
  }[];
  /** WebSockets that are open now. */
  readonly sockets: ReadonlySet<Duplex>;
}

export interface PageEngineOptions {
  readonly html?: string;
  /** The page's own content security policy. */
  readonly policy?: string;
}

/** `/` is that page. */
export async function startPageEngine(options: PageEngineOptions = {}): Promise<PageEngineDouble> {
  const { html = "<!doctype html><title>An engine's page</title>" } = options;
  const { policy = "script-src 'unsafe-inline'" } = options;
  const calls: { method: string; url: string; headers: IncomingMessage["headers"] }[] = [];
  const sockets = new Set<Duplex>();
  const note = ({ method = "", url = "", headers }: IncomingMessage): void => void calls.push({ method, url, headers });

  const served = await serve((request, response) => {
    note(request);
    const url = new URL(request.url ?? "/", "http://engine");
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("clear-site-data", '"*"');
    if (url.pathname === "/redirect") {
      response.writeHead(302, { location: url.searchParams.get("to") ?? "/" }).end();
    } else if (url.pathname === "/cookie") {
      const cookies = ["a=1; Path=/; Domain=example.org; HttpOnly", "b=2; SameSite=Lax"];
      response.writeHead(200, { "set-cookie": cookies }).end("baked");
    } else if (url.pathname === "/echo") {
      readBody(request, (body) => json(response, 200, { body, query: url.search }));
    } else if (url.pathname === "/sw.js") {
      response.writeHead(200, { "content-type": "text/javascript", "service-worker-allowed": "/" }).end("");
    } else if (url.pathname === "/cut") {
      response.writeHead(200, { "content-length": "100" });
      response.write("half", () => response.destroy());
    } else if (url.pathname === "/hang") {
      // Never answered.
    } else {
      response.writeHead(200, { "content-type": "text/html", "content-security-policy": policy }).end(html);
    }
  });
  served.server.on("upgrade", (request: IncomingMessage, socket: Duplex) => {
    note(request);
    socket.on("error", () => socket.destroy());
    if (request.url === "/away") {
      const location = "location: http://evil.example/";
      socket
        .resume()
        .end(`HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n${location}\r\n\r\n`);
      return;
    }
    if (request.url !== "/ws") {
      socket.end("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
      return;
    }
    const key = `${request.headers["sec-websocket-key"] ?? ""}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash("sha1").update(key).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    let bytes = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      bytes = echoed(bytes, socket);
    });
  });
  return {
    port: served.port,
    calls,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await served[Symbol.asyncDispose]();
    },
  };
}

/** Sends back each whole short message (RFC 6455, 5.2), answers a close; the bytes that are left. */
function echoed(bytes: Buffer<ArrayBuffer>, socket: Duplex): Buffer<ArrayBuffer> {
  let rest = bytes;
  for (;;) {
    const length = (rest[1] ?? 0) & 0x7f;
    if (rest.length < 6 + length) return rest;
    const mask = rest.subarray(2, 6);
    const text = Buffer.from(rest.subarray(6, 6 + length).map((byte, at) => byte ^ (mask[at % 4] ?? 0)));
    const kind = rest[0] ?? 0;
    socket.write(Buffer.concat([Buffer.from([kind, length]), text]));
    if ((kind & 0x0f) === 8) socket.end();
    rest = rest.subarray(6 + length);
  }
}
