import { readFileSync, writeFileSync } from "node:fs";

const setting = "/proc/sys/net/ipv4/tcp_migrate_req";

/**
 * Has Linux (5.14 and later) give the connections that wait at a closed socket to the other gateway's, until disposed.
 * Without it, which only root can do, connections are reset that come in the moment in which a gateway closes its sockets.
 * https://docs.kernel.org/networking/ip-sysctl.html
 */
export function migrateConnections(): Disposable {
  try {
    if (readFileSync(setting, "utf8").trim() === "0") {
      writeFileSync(setting, "1");
      return {
        [Symbol.dispose]() {
          writeFileSync(setting, "0");
        },
      };
    }
  } catch {
    // Not root, or an older kernel, or a container.
  }
  return { [Symbol.dispose]: () => undefined };
}
