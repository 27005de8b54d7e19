import { request as forward, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { serve } from "../support/listen.ts";

export interface ProxyDouble extends AsyncDisposable {
  readonly port: number;
  /** `GET http://hub.test/a`, `CONNECT hub.test:443`. */
  readonly asked: string[];
  /** As the last request had them. */
  authorization: string | undefined;
  /** Connections that are open to the proxied server. */
  readonly open: Set<Socket>;
  /** Answers CONNECT with that; absent: connects. */
  refusal?: number;
}

/** An HTTP proxy that connects to one server of this machine, whatever host is named. */
export async function startProxy(target: () => number): Promise<ProxyDouble> {
  const open = new Set<Socket>();
  const served = await serve((request, response) => {
    note(request);
    const { method = "GET", headers, url = "" } = request;
    const path = new URL(url).pathname;
    const to = forward({ host: "127.0.0.1", port: target(), method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    to.on("error", () => response.destroy());
    to.end();
  });
  const note = ({ method, url, headers }: IncomingMessage): void => {
    double.asked.push(`${method ?? ""} ${url ?? ""}`);
    double.authorization = headers["proxy-authorization"];
  };
  served.server.on("connect", (request, socket: Socket) => {
    note(request);
    if (double.refusal !== undefined) {
      socket.end(`HTTP/1.1 ${double.refusal} No\r\n\r\n`);
      return;
    }
    const to = connect(target(), "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      socket.pipe(to).pipe(socket);
    });
    open.add(to);
    to.on("close", () => open.delete(to));
    for (const each of [to, socket]) each.on("error", () => each.destroy());
    socket.on("close", () => to.destroy());
  });
  const double: ProxyDouble = {
    port: served.port,
    asked: [],
    authorization: undefined,
    open,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await served[Symbol.asyncDispose]();
    },
  };
  return double;
}
