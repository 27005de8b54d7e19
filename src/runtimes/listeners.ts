import { connect } from "node:net";
import { knownListeners, listeningInodes } from "./proc.ts";
import { errorCode } from "../lib/error-code.ts";

/** On loopback a connection is taken or refused at once; a full backlog answers neither. */
const timeoutMs = 200;

/**
 * Inodes of the sockets that listen on the port, of those that 127.0.0.1 reaches. While an engine loads it is looked
 * for again and again: a refused connection tells in a tenth of a millisecond what the kernel's table tells in many.
 */
export async function listenersOn(port: number): Promise<ReadonlySet<string>> {
  const known = knownListeners(port);
  if (known !== undefined) return known;
  return (await isRefused(port)) ? new Set() : listeningInodes(port);
}

/** False also when nothing is known: then the table tells. */
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
