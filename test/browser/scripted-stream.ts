import { createServer, type ServerResponse } from "node:http";
import { listen } from "../support/listen.ts";

export interface ScriptedStream extends AsyncDisposable {
  readonly url: string;
  /** Sends one event to everybody who follows now. */
  send(event: string, data: unknown): void;
  readonly followers: () => number;
  /** Ends the connection of everybody who follows now. */
  drop(): void;
}

/** A server whose streams say what the test says. */
export async function scriptedStream(): Promise<ScriptedStream> {
  const open = new Set<ServerResponse>();
  let snapshot = "";
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    // As of a real server: a page that connects again gets the snapshot again.
    response.write(`: here\n\n${snapshot}`);
    open.add(response);
    response.once("close", () => open.delete(response));
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}/`,
    send(event, data) {
      const text = `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
      if (event === "snapshot") snapshot = text;
      for (const response of open) response.write(text);
    },
    followers: () => open.size,
    drop: () => server.closeAllConnections(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
