import { createServer, type Socket } from "node:net";
import { listen } from "./listen.ts";

export interface TcpServer extends AsyncDisposable {
  readonly port: number;
  /** Every connection so far, oldest first. */
  readonly sockets: readonly Socket[];
  /** The text that each connection has sent. */
  readonly received: readonly string[];
}

/** A DOUBLE of an engine whose test decides each byte: `onText` gets all the text that a connection has sent. */
export async function tcpServer(onText: (socket: Socket, text: string, nth: number) => void): Promise<TcpServer> {
  const sockets: Socket[] = [];
  const received: string[] = [];
  const server = createServer((socket) => {
    const nth = sockets.push(socket) - 1;
    received[nth] = "";
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      received[nth] += chunk.toString("latin1");
      onText(socket, received[nth] ?? "", nth);
    });
  });
  const port = await listen(server);
  return {
    port,
    sockets,
    received,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
