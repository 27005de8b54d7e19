import type { Living } from "../../../src/runtimes/docker/inspected.ts";
import { Daemon } from "../../../src/runtimes/docker/daemon.ts";
import { startDockerDaemon, type DaemonAnswer } from "../../doubles/docker-daemon.ts";

export const label = {
  instance: "i",
  slot: "primary",
  role: "main",
  ordinal: 0,
  hash: "h",
  port: 8081,
  name: "n",
} as const;

type State = Living["info"]["State"];

/** A container that runs for long, as a daemon reports it. */
export function container(id: string, state: Partial<State> = {}): Living {
  const flags = { Running: true, Paused: false, Restarting: false, OOMKilled: false, Dead: false };
  const [StartedAt, FinishedAt] = ["2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z"];
  const State = { Status: "running", ...flags, Pid: 1, ExitCode: 0, Error: "", StartedAt, FinishedAt, ...state };
  return { id, info: { State } };
}

export async function daemonOf(answer: DaemonAnswer, options?: ConstructorParameters<typeof Daemon>[1]) {
  const double = await startDockerDaemon(answer);
  const daemon = new Daemon(double.path, options);
  return {
    double,
    daemon,
    count: (what: string) => double.asked.filter((asked) => asked === what).length,
    async [Symbol.asyncDispose]() {
      daemon[Symbol.dispose]();
      await double[Symbol.asyncDispose]();
    },
  };
}
