import type { AddressInfo } from "node:net";
import type { Config } from "../../api/config.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import { createServer } from "../../lib/node-http.ts";
import type { Lease } from "../../store/store.ts";

export interface OperatorServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * The facts that a command needs to act on this instance and to reach it. No secret: every local user may read it, in a
 * Pod every one who reaches the Pod; no page of another site, which would have to rebind its name to this address.
 */
export type OperatorPlaces = Pick<Config, "configDir" | "stateDir" | "modelsDir" | "host" | "port" | "authEnabled"> & {
  /** The address of the page itself; absent: loopback. */
  readonly operatorHost?: string;
};

/** A Host that no page of another site has. */
const ownHost = /^(?:localhost|[\d.]+|\[[\da-f:.]+\])(?::\d+)?$/i;

const notRenewed =
  "leadership was not renewed in time: nothing is started or stopped until it is; the log has the reason\n";

/** Page of the operator: `/metrics`, `/livez`, `/readyz`, `/instance`. Throws when the port is taken. */
export async function serveOperator(options: {
  port: number;
  /** Undefined until metrics exist. */
  metrics: () => MetricPage | undefined;
  state: () => "starting" | "standby" | "ready";
  /** The right to act; undefined until there is one. */
  lease: () => Lease | undefined;
  /** The directories for commands on this machine. */
  places: OperatorPlaces;
}): Promise<OperatorServer> {
  const server = createServer((request, response) => {
    const path = request.url?.split("?")[0];
    const send = (status: number, type: string, body: string | Buffer): void => {
      response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
    };
    if (request.method !== "GET" && request.method !== "HEAD") send(405, "text/plain", "only GET\n");
    else if (path === "/livez") send(200, "text/plain", "ok\n");
    else if (path === "/readyz") {
      const state = options.state();
      if (state === "ready" && !mayAct(options.lease())) send(503, "text/plain", notRenewed);
      else send(state === "starting" ? 503 : 200, "text/plain", state === "ready" ? "ok\n" : `${state}\n`);
    } else if (path === "/metrics") {
      const page = options.metrics();
      if (page === undefined) send(200, "text/plain", "");
      else
        page.render(request.headers.accept).then(
          ({ type, body }) => send(200, type, body),
          (error: unknown) => send(500, "text/plain", `${String(error)}\n`),
        );
    } else if (path === "/instance" && !ownHost.test(request.headers.host ?? "")) {
      send(403, "text/plain", "ask by address, as in http://127.0.0.1\n");
    } else if (path === "/instance") {
      const { configDir, stateDir, modelsDir, host, port, authEnabled } = options.places;
      const places = { name: "berth", configDir, stateDir, modelsDir, host, port, authEnabled };
      send(200, "application/json", JSON.stringify(places));
    } else send(404, "text/plain", "see /metrics, /livez, /readyz, /instance\n");
  });
  await new Promise<void>((resolve, reject) => {
    // For good: a connection that cannot be accepted later, for want of a descriptor, is ignored.
    server.on("error", reject);
    server.listen(options.port, options.places.operatorHost ?? "127.0.0.1", resolve);
  });
  const address: AddressInfo | string | null = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function mayAct(lease: Lease | undefined): boolean {
  try {
    lease?.check();
    return true;
  } catch (error) {
    if (error instanceof Error && error.name === "LeadershipLost") return false;
    throw error;
  }
}
