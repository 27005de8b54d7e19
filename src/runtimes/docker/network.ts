import { Serial } from "../../lib/serial.ts";
import { DaemonRefusal, type Daemon } from "./daemon.ts";
import { instanceLabel, labelFilter, networkFor } from "./label.ts";

/**
 * The bridge network of an instance, on which engines cannot reach each other (Podman ignores that option). It exists
 * as long as the instance has containers. One at a time: the daemon would create two of one name.
 */
export class Network {
  readonly #daemon: Daemon;
  readonly #instance: string;
  readonly #serial = new Serial();
  #users = 0;

  constructor(daemon: Daemon, instance: string) {
    this.#daemon = daemon;
    this.#instance = instance;
  }

  /**
   * Creates it unless it exists, and runs the task with its id. It is not removed before the task ends: until then the
   * task's container may not be in it.
   */
  async use<T>(task: (id: string) => Promise<T>): Promise<T> {
    this.#users += 1;
    try {
      return await task(await this.#id());
    } finally {
      this.#users -= 1;
    }
  }

  async #id(): Promise<string> {
    return await this.#serial.run(async () => {
      const [known] = await this.#ids();
      if (known !== undefined) return known;
      const made = await this.#daemon.call((api) =>
        api.createNetwork({
          Name: networkFor(this.#instance),
          Driver: "bridge",
          Labels: { [instanceLabel]: this.#instance },
          Options: { "com.docker.network.bridge.enable_icc": "false" },
        }),
      );
      return made.id;
    });
  }

  /** Removes it; a network in use stays. */
  async remove(): Promise<void> {
    await this.#serial.run(async () => {
      for (const id of await this.#ids()) {
        if (this.#users > 0) return;
        try {
          await this.#daemon.call((api) => api.getNetwork(id).remove());
        } catch (error) {
          if (!(error instanceof DaemonRefusal)) throw error;
        }
      }
    });
  }

  async #ids(): Promise<readonly string[]> {
    const filters = { label: labelFilter(this.#instance) };
    return (await this.#daemon.call((api) => api.listNetworks({ filters }), "brief")).map(({ Id: id }) => id);
  }
}
