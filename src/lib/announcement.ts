import { connect, Server } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { parseJson } from "./json.ts";

const answerMs = 1000;

/**
 * Listens at the abstract socket of that name until disposed: each connection gets `report()` as JSON. Linux frees the
 * name when the process ends in any way, and shows it to every user in the same network namespace. Rejects with
 * EADDRINUSE where another process holds the name.
 */
export async function announce(name: string, report: () => object): Promise<AsyncDisposable> {
  const server = new Server((socket) => {
    // The reader may be gone.
    socket.on("error", () => socket.destroy());
    socket.resume().end(JSON.stringify(report()));
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", reject);
  server.listen({ path: `\0${name}` }, resolve);
  await promise;
  server.off("error", reject).on("error", () => undefined);
  return server;
}

/** The report of the process that holds the name; undefined where none does, or it does not answer within a second. */
export async function announced(name: string): Promise<unknown> {
  const socket = connect({ path: `\0${name}`, signal: AbortSignal.timeout(answerMs) });
  try {
    return parseJson(await textOf(socket));
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
