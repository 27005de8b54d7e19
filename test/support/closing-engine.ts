import { createServer, type Socket } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { z } from "zod";
import { listen } from "./listen.ts";

const options = z.object({
  flag: z.instanceof(SharedArrayBuffer),
  /** The answer to a request that ends with a full stop. */
  answer: z.string(),
});
const order = z.object({ text: z.string(), isReset: z.boolean() });

export interface ClosingEngine extends AsyncDisposable {
  readonly port: number;
  /**
   * The engine waits for the first bytes of the newest connection, sends `text` and closes the connection, or resets it.
   * This thread stands still meanwhile: afterwards the kernel has what came, and no listener has read it.
   */
  end(text: string, isReset?: boolean): void;
}

/** A DOUBLE of an engine in a thread of its own, which closes connections at a known point of this thread. */
export async function closingEngine(answer: string): Promise<ClosingEngine> {
  const flag = new SharedArrayBuffer(4);
  const isClosed = new Int32Array(flag);
  const worker = new Worker(new URL(import.meta.url), { workerData: { answer, flag } });
  const port = await new Promise<number>((resolve, reject) => {
    worker.once("message", (value) => resolve(z.number().parse(value)));
    worker.once("error", reject);
  });
  return {
    port,
    end(text, isReset = false) {
      Atomics.store(isClosed, 0, 0);
      worker.postMessage({ text, isReset } satisfies z.infer<typeof order>, []);
      if (Atomics.wait(isClosed, 0, 0, 10_000) === "timed-out") throw new Error("the engine did not close");
    },
    async [Symbol.asyncDispose]() {
      await worker.terminate();
    },
  };
}

async function serve(): Promise<void> {
  const { flag, answer } = options.parse(workerData);
  const isClosed = new Int32Array(flag);
  let newest: { readonly socket: Socket; hasBegun: boolean } | undefined;
  let ordered: z.infer<typeof order> | undefined;
  const obey = (): void => {
    if (newest?.hasBegun !== true || ordered === undefined) return;
    const { socket } = newest;
    const { text, isReset } = ordered;
    ordered = undefined;
    socket.once("close", () => {
      Atomics.store(isClosed, 0, 1);
      Atomics.notify(isClosed, 0);
    });
    socket.write(text, () => (isReset ? socket.resetAndDestroy() : socket.destroy()));
  };
  const server = createServer((socket) => {
    const connection = { socket, hasBegun: false };
    newest = connection;
    socket.on("error", () => undefined);
    socket.once("close", () => {
      if (newest === connection) newest = undefined;
    });
    socket.on("data", (chunk) => {
      connection.hasBegun = true;
      if (chunk.at(-1) === ".".charCodeAt(0)) socket.write(answer);
      obey();
    });
  });
  parentPort?.on("message", (value) => {
    ordered = order.parse(value);
    obey();
  });
  parentPort?.postMessage(await listen(server), []);
}

if (!isMainThread) await serve();
