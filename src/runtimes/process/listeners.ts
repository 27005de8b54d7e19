import { connect } from "node:net";
import { knownListeners, listeningInodes } from "./proc.ts";
import { errorCode } from "../../lib/error-code.ts";

/** On loopback a connection is accepted or refused at once; a full backlog answers neither. */
const timeoutMs = 200;

/**
 * Inodes of the sockets that listen on the port, among those that 127.0.0.1 reaches. A loading engine is checked
 * repeatedly: a refused connection takes a tenth of a millisecond, the kernel's table many.
 */
export async function listenersOn(port: number): Promise<ReadonlySet<string>> {
  const known = knownListeners(port);
  if (known !== undefined) return known;
  return (await isRefused(port)) ? new Set() : listeningInodes(port);
}

/** False also without an answer: then the table decides. */
function isRefused(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ host: "127.0.0.1", port, timeout: timeoutMs });
  const end = (refused: boolean): void => {
    socket.destroy();
    resolve(refused);
  };
  socket.once("connect", () => end(false));
  socket.once("timeout", () => end(false));
  socket.once("error", (error) => end(errorCode(error) === "ECONNREFUSED"));
  return promise;
}
