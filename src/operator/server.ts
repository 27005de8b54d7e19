import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config } from "../api/config.ts";
import type { Registry } from "prom-client";
import { http2Preface, http2Refusal } from "../lib/http1/http2-refusal.ts";

export interface OperatorServer extends AsyncDisposable {
  readonly port: number;
}

/** What a command needs to act on this instance, and to say how it is reached. No secret: every local user may read it. */
export type OperatorPlaces = Pick<Config, "configDir" | "stateDir" | "modelsDir" | "host" | "port" | "authEnabled">;

/** Loopback page of the operator: `/metrics`, `/livez`, `/readyz`, `/instance`. Throws when the port is taken. */
export async function serveOperator(options: {
  port: number;
  registry: Registry;
  isReady: () => boolean;
  /** Whose directories a command on this machine is to act on. */
  places: OperatorPlaces;
}): Promise<OperatorServer> {
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    const send = (status: number, type: string, body: string): void => {
      response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
    };
    if (request.method !== "GET" && request.method !== "HEAD") send(405, "text/plain", "only GET\n");
    else if (path === "/livez") send(200, "text/plain", "ok\n");
    else if (path === "/readyz")
      send(options.isReady() ? 200 : 503, "text/plain", options.isReady() ? "ok\n" : "starting\n");
    else if (path === "/metrics") {
      options.registry.metrics().then(
        (text) => send(200, options.registry.contentType, text),
        (error: unknown) => send(500, "text/plain", `${String(error)}\n`),
      );
    } else if (path === "/instance") {
      const { configDir, stateDir, modelsDir, host, port, authEnabled } = options.places;
      const places = { name: "berth", configDir, stateDir, modelsDir, host, port, authEnabled };
      send(200, "application/json", JSON.stringify(places));
    } else send(404, "text/plain", "see /metrics, /livez, /readyz, /instance\n");
  });
  server.on("clientError", (error: Error & { code?: string }, socket) => {
    if (!socket.writable || error.code !== http2Preface) {
      socket.destroy();
      return;
    }
    socket.end(http2Refusal("HTTP/2 is not spoken here: send HTTP/1.1"));
    socket.resume();
  });
  await new Promise<void>((resolve, reject) => {
    // For good: a connection that cannot be taken later on, for want of a descriptor, is nobody's loss.
    server.on("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  const address: AddressInfo | string | null = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
