import { createServer, type RequestListener, type Server as HttpServer } from "node:http";
import type { Server } from "node:net";

/** Makes a server listen on loopback; the port it got. Rejects when the one asked for is taken. */
export async function listen(server: Server, port = 0, host = "127.0.0.1"): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the system gave no port");
  return address.port;
}

export interface Served extends AsyncDisposable {
  readonly server: HttpServer;
  readonly port: number;
  readonly url: string;
}

/** An HTTP server on loopback. Disposing cuts its connections. */
export async function serve(onRequest: RequestListener, port = 0, host = "127.0.0.1"): Promise<Served> {
  const server = createServer(onRequest);
  const bound = await listen(server, port, host);
  return {
    server,
    port: bound,
    url: `http://${host}:${bound}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
