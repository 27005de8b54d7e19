import { connect } from "node:net";

export interface RawAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

/**
 * Sends bytes as they are and reads until the other side closes, or until `isEnough`. Rejects when nothing comes for
 * `timeoutMs`: a hang is a finding.
 */
export async function rawExchange(
  url: string,
  bytes: string | Buffer,
  options: { isEnough?: (text: string) => boolean; timeoutMs?: number } = {},
): Promise<RawAnswer> {
  const { isEnough = isWhole, timeoutMs = 60_000 } = options;
  const { hostname, port } = new URL(url);
  const text = await new Promise<string>((resolve, reject) => {
    let received = "";
    const socket = connect({ host: hostname, port: Number(port) });
    socket.setTimeout(timeoutMs, () => {
      socket.destroy();
      reject(new Error(`no answer in ${timeoutMs} ms, only ${JSON.stringify(received.slice(0, 200))}`));
    });
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      if (!isEnough(received)) return;
      socket.destroy();
      resolve(received);
    });
    socket.on("error", (error) => {
      // A reset after the answer is the server's right: it had not read everything.
      if (received === "") reject(error);
    });
    socket.on("close", () => resolve(received));
    socket.write(bytes);
  });
  const headEnd = text.indexOf("\r\n\r\n");
  const head = text.slice(0, headEnd);
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]), head, body: text.slice(headEnd + 4) };
}

/** All of an answer that states its length. */
function isWhole(text: string): boolean {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd < 0) return false;
  const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, headEnd))?.[1];
  return length !== undefined && text.length - headEnd - 4 >= Number(length);
}
