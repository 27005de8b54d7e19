import { connect } from "node:net";

/** Sends one chat request for each model over one connection, without waiting for answers; ends it when disposed. */
export function askPipelined(port: number, models: Iterable<string>): Disposable {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.resume();
  for (const model of models) {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  }
  return { [Symbol.dispose]: () => void socket.destroy() };
}
