import { connect } from "node:net";

/** Sends a request whose body comes piece by piece, as fast as it is taken, and gives the answer's status. */
export async function upload(options: {
  port: number;
  path: string;
  contentType: string;
  /** Absent: chunked. */
  length?: number;
  pieces: Iterable<Buffer>;
}): Promise<number> {
  const { port, path, contentType, length } = options;
  const socket = connect({ port, host: "127.0.0.1" });
  let answer = "";
  let isGone = false;
  const answered = new Promise<void>((resolve) => {
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString("latin1");
      if (answer.includes("\r\n\r\n")) resolve();
    });
    socket.on("error", () => undefined);
    socket.once("close", () => {
      isGone = true;
      resolve();
    });
  });
  const framing = length === undefined ? "transfer-encoding: chunked" : `content-length: ${length}`;
  socket.write(`POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${contentType}\r\n${framing}\r\n\r\n`);
  for (const piece of options.pieces) {
    if (isGone || answer !== "") break;
    if (length === undefined) socket.write(`${piece.length.toString(16)}\r\n`);
    const isTaken = socket.write(piece);
    if (length === undefined) socket.write("\r\n");
    if (!isTaken) await Promise.race([drained(socket), answered]);
    else await new Promise((resolve) => setImmediate(resolve));
  }
  if (length === undefined && answer === "" && !isGone) socket.write("0\r\n\r\n");
  await answered;
  socket.destroy();
  return Number(answer.slice(9, 12));
}

function drained(socket: NodeJS.WritableStream): Promise<void> {
  return new Promise((resolve) => socket.once("drain", resolve));
}

export function* pieces(count: number, piece: Buffer): Iterable<Buffer> {
  for (let index = 0; index < count; index++) yield piece;
}
