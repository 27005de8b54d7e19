import { createRequire, Module } from "node:module";

/**
 * Docker's client loads ssh2 for daemons behind SSH, which Berth does not use: it connects to a socket of this machine.
 * ssh2 has native addons that npm compiles against the Node that runs npm; loaded by another Node they end the process
 * with a segmentation fault (Debian's Node 20 compiles them, Node 24 would load them). An empty module replaces ssh2
 * before the client loads it, so that no such addon is loaded in any installation of Berth.
 */
function withoutSsh(): void {
  const client = createRequire(import.meta.url).resolve("dockerode");
  const modem = createRequire(client).resolve("docker-modem");
  const ssh2 = createRequire(modem).resolve("ssh2");
  const empty = new Module(ssh2);
  empty.exports = {};
  empty.loaded = true;
  createRequire(modem).cache[ssh2] = empty;
}

withoutSsh();

export const { default: Dockerode } = await import("dockerode");
export type Dockerode = InstanceType<typeof Dockerode>;
