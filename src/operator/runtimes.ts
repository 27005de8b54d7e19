import { existsSync } from "node:fs";
import type { Config } from "../api/config.ts";
import type { PublishedSlot } from "../api/status.ts";
import { socketPath } from "../runtimes/docker/socket.ts";
import { openProcessRuntime } from "../runtimes/process.ts";
import { RuntimeSet } from "../runtimes/set.ts";

/**
 * Every runtime of this installation. Docker is asked at once where slots run in it or may come to, otherwise only when
 * a slot names it: what an earlier configuration has left there must be found. `lookMs`: how long it may be silent.
 */
export async function openRuntimes(
  config: Config,
  instance: string,
  published: Iterable<PublishedSlot>,
  { lookMs }: { lookMs?: number } = {},
): Promise<RuntimeSet> {
  const { stateDir, configDir, modelsDir, engineUser, dockerHost, allowHostMounts } = config;
  const processes = await openProcessRuntime({
    stateDir,
    instance,
    ...(engineUser === undefined ? {} : { engineUser }),
  });
  const set = new RuntimeSet(processes, {
    // Only here: its client is a large one.
    docker: async (signal) => {
      const { openDockerRuntime } = await import("../runtimes/docker/docker.ts");
      const places = { stateDir, configDir, modelsDir };
      const how = {
        instance,
        dockerHost,
        allowsHostMounts: allowHostMounts,
        signal,
        ...(lookMs === undefined ? {} : { lookMs }),
      };
      return await openDockerRuntime({ ...places, ...how });
    },
  });
  const isAsked = config.runtime === "docker" || [...published].some(({ status }) => status.runtime === "docker");
  const mayBe = config.runtime === "auto" && existsSync(socketPath(dockerHost) ?? "");
  if (isAsked || mayBe) await set.need("docker");
  return set;
}
