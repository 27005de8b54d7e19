import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { freePort } from "./free-port.ts";
import { listen } from "./listen.ts";

/** One request as the engine got it. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  /** The client's side of it has ended the connection before the answer was whole. */
  isAborted: boolean;
}

export interface ScriptedEngine extends AsyncDisposable {
  readonly port: number;
  readonly seen: Seen[];
  /** Connections that are open now. */
  readonly connections: () => number;
  /** Answers from now on. */
  answer(script: Script): void;
  /** Cuts all connections and listens no more; `restart` listens on the same port again. */
  stop(): Promise<void>;
  restart(): Promise<void>;
}

export type Script = (response: ServerResponse, seen: Seen) => void | Promise<void>;

/** A DOUBLE of an engine, in this process: the test says what it answers, and sees what it got. */
export async function scriptedEngine(script: Script = sayHello): Promise<ScriptedEngine> {
  const seen: Seen[] = [];
  const sockets = new Set<Socket>();
  let current = script;
  const server = createServer((request, response) => {
    void textOf(request)
      .then(async (body) => {
        const one: Seen = {
          method: request.method ?? "",
          path: request.url ?? "",
          headers: request.headers,
          body,
          isAborted: false,
        };
        response.once("close", () => (one.isAborted = !response.writableFinished));
        seen.push(one);
        await current(response, one);
      })
      .catch(() => response.destroy());
  });
  // A busy machine may let a connection rest for longer than any time-out of a test's.
  server.keepAliveTimeout = 0;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });
  // One that stays its own while it does not listen.
  const port = await listen(server, await freePort());
  const stop = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  };
  return {
    port,
    seen,
    connections: () => sockets.size,
    answer: (next) => void (current = next),
    stop,
    restart: async () => void (await listen(server, port)),
    [Symbol.asyncDispose]: () => (server.listening ? stop() : Promise.resolve()),
  };
}

/** A whole chat answer, or a stream of three words where one was asked for. */
export function sayHello(response: ServerResponse, { body }: Seen): void {
  if (/"stream"\s*:\s*true/.test(body)) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const chunk of helloChunks) response.write(chunk);
    response.end();
    return;
  }
  json(response, {
    id: "1",
    object: "chat.completion",
    model: "engine-model",
    choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  });
}

export function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** One event of a chat stream as engines send it. */
export function chunk(delta: object, finish: string | null = null): string {
  const event = {
    id: "1",
    object: "chat.completion.chunk",
    created: 1,
    model: "engine-model",
    choices: [{ index: 0, delta, finish_reason: finish }],
  };
  return `data: ${JSON.stringify(event)}\n\n`;
}

export const helloChunks: readonly string[] = [
  chunk({ role: "assistant", content: "" }),
  chunk({ content: "hel" }),
  chunk({ content: "lo" }),
  chunk({}, "stop"),
  "data: [DONE]\n\n",
];
