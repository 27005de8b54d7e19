import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { Server } from "node:http";

/** The HTTP server of this process that answers at that address, to have it tell what the system would make it tell. */
export async function serverBehind(url: string): Promise<Server> {
  const { port } = new URL(url);
  let found: Server | undefined;
  const note = (message: unknown): void => {
    if (typeof message !== "object" || message === null || !("server" in message)) return;
    const { server } = message;
    if (!(server instanceof Server)) return;
    const address = server.address();
    if (typeof address === "object" && String(address?.port) === port) found = server;
  };
  subscribe("http.server.request.start", note);
  try {
    await (await fetch(url)).text();
  } finally {
    unsubscribe("http.server.request.start", note);
  }
  if (found === undefined) throw new Error(`no server of this process answers at ${url}`);
  return found;
}
