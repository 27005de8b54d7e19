import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { SwitchPair, SwitchTrial } from "../programs/spec.ts";
import type { PartOptions } from "./site.ts";

const hook = fileURLToPath(new URL("../programs/telemetry-switch.ts", import.meta.url));

/** Switches parts of telemetry in a gateway that was started with `options`. */
export class TelemetrySwitch implements AsyncDisposable {
  readonly #server = createServer();
  readonly #path: string;
  #socket: Socket | undefined;
  #lines: Interface | undefined;

  constructor(directory: string) {
    this.#path = join(directory, "switch.sock");
  }

  get options(): Required<Pick<PartOptions, "nodeFlags" | "env">> {
    return { nodeFlags: ["--import", hook], env: { BENCH_SWITCH: this.#path } };
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#path);
    await once(this.#server, "listening");
    this.#server.on("connection", (socket) => {
      this.#socket = socket;
      this.#lines = createInterface({ input: socket });
    });
  }

  /** The gateway must serve requests meanwhile. */
  async compare(trial: SwitchTrial): Promise<readonly SwitchPair[]> {
    if (this.#socket === undefined || this.#lines === undefined) throw new Error("the gateway has no switch");
    this.#socket.write(`${JSON.stringify(trial)}\n`);
    const [line] = await once(this.#lines, "line");
    const pairs: SwitchPair[] = JSON.parse(String(line));
    return pairs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket?.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }
}
