/**
 * Loaded before a program (`NODE_OPTIONS=--import`), a DOUBLE of a defect in it: throws where nobody catches, on SIGUSR2
 * and, with CRASH_ON_CONNECT, as soon as it connects anywhere.
 */
import { Socket } from "node:net";

function crash(): never {
  throw new Error("a defect that nobody has caught");
}

process.on("SIGUSR2", crash);
if (process.env["CRASH_ON_CONNECT"] !== undefined) {
  const real = Reflect.get(Socket.prototype, "connect");
  Reflect.set(Socket.prototype, "connect", function connect(this: Socket, ...args: unknown[]): unknown {
    setImmediate(crash);
    return Reflect.apply(real, this, args);
  });
}
