import { createServer } from "node:net";
import { join } from "node:path";
import type { Config } from "../../api/config.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { parseJson } from "../../lib/json.ts";
import { localUrl } from "../../lib/listen-address.ts";
import { isRecord } from "../../lib/record.ts";
import type { StoreConfig } from "../../store/opened-store.ts";
import { fail, ok, warn, type Finding } from "./finding.ts";
import { filesIn } from "../install/state-files.ts";

type Network = Pick<Config, "host" | "port" | "operatorPort" | "slotPorts"> & StoreConfig;

/** The time limit for a running service's answer. */
const answerMs = 3000;

/** The ports that Berth wants: free, its own, or somebody else's. Listens for a moment where nobody does. */
export async function portFindings(config: Network, isOperatorRunning: boolean): Promise<Finding[]> {
  return [
    ...(await gatewayFindings(config, isOperatorRunning)),
    await operatorPortFinding(config, isOperatorRunning),
    await slotPortsFinding(config),
  ];
}

async function gatewayFindings(config: Network, isOperatorRunning: boolean): Promise<Finding[]> {
  const { host, port } = config;
  if (port === 0) return [ok("port", "SVC_PORT is 0: any free one")];
  const url = localUrl(host, port);
  const status = await answerOf(`${url}/api/status`);
  if (status?.["name"] === "berth") {
    const version = String(status["version"]);
    const { openStore } = await import("../../store/open.ts");
    if ((await openStore(config).hasLiveGateway()) === false) {
      const next = "set SVC_PORT to another, or SVC_STATE_DIR to that of the service that runs";
      return [fail("port", `${port} is that of another Berth (${version}), with another state directory`, next)];
    }
    return [ok("port", `${port}: the gateway answers, version ${version}`), await healthFinding(url)];
  }
  const taken = await portProblem(host, port, "SVC_PORT");
  if (taken !== undefined) return [fail("port", ...taken)];
  return isOperatorRunning
    ? [warn("port", `${port} is free: no gateway runs`, "`berth serve` starts one, `berth up` both")]
    : [ok("port", `${port} is free`)];
}

async function healthFinding(url: string): Promise<Finding> {
  const health = await answerOf(`${url}/api/health/system`);
  const checks = isRecord(health?.["checks"]) ? health["checks"] : {};
  if (health?.["status"] === "ok") return ok("service", "healthy");
  const bad = Object.entries(checks).flatMap(([name, check]) => {
    if (!isRecord(check) || check["status"] === "ok") return [];
    const details = Object.entries(check).flatMap(([key, value]) =>
      key === "status" ? [] : [`${key} ${plain(value)}`],
    );
    return [`${name} (${details.join(", ")})`];
  });
  const what = bad.length === 0 ? "it does not report its health" : `degraded: ${bad.join(", ")}`;
  return warn("service", what, "`berth status` and `berth slot list` tell more");
}

/** A value of a check in one line: `Upstream Stalled InvalidSpec 1` for a counted condition. */
function plain(value: unknown): string {
  if (Array.isArray(value)) return value.map(plain).join(",");
  return isRecord(value) ? Object.values(value).map(String).join(" ") : String(value);
}

async function operatorPortFinding({ operatorPort }: Network, isOperatorRunning: boolean): Promise<Finding> {
  const check = "operator port";
  if (operatorPort === 0) return ok(check, "SVC_OPERATOR_PORT is 0: any free one");
  const taken = await portProblem("127.0.0.1", operatorPort, "SVC_OPERATOR_PORT");
  if (taken === undefined) return ok(check, `${operatorPort} is free`);
  if (!isOperatorRunning) return fail(check, ...taken);
  return (await answers(`http://127.0.0.1:${operatorPort}/livez`))
    ? ok(check, `${operatorPort}: the operator answers`)
    : fail(check, ...taken);
}

async function slotPortsFinding({ slotPorts: { first, last }, stateDir }: Network): Promise<Finding> {
  const check = "slot ports";
  const range = `${first} to ${last}`;
  const { listeningPorts } = await import("../../runtimes/process/proc.ts");
  const listening = listeningPorts("/proc/net");
  if (listening === undefined)
    return warn(check, `the programs that listen on ${range} cannot be seen here`, "list them with ss -ltn");
  const ours = new Set(await portsOfEngines(stateDir));
  const taken: number[] = [];
  let ourCount = 0;
  for (let port = first; port <= last; port += 1) {
    if (!listening.has(port)) continue;
    if (ours.has(port)) ourCount += 1;
    else taken.push(port);
  }
  const free = last - first + 1 - ourCount - taken.length;
  const text = `${range}: ${free} free, ${ourCount} of engines`;
  if (taken.length === 0) return ok(check, text);
  const message = `${text}, taken by others: ${taken.join(", ")}`;
  return free + ourCount === 0
    ? fail(check, message, "no engine can start: set SVC_SLOT_PORTS to another range")
    : warn(check, message, "automatic ports pass over them; SVC_SLOT_PORTS names another range");
}

/** The ports of recorded engines, and of published ones: containers have no record. */
async function portsOfEngines(stateDir: string): Promise<readonly number[]> {
  const published = (await filesIn(join(stateDir, "slots"))) ?? [];
  const records = (await filesIn(join(stateDir, "processes"))) ?? [];
  return [...published, ...records].flatMap((text) => {
    const found = parseJson(text);
    if (!isRecord(found)) return [];
    const status = isRecord(found["status"]) ? found["status"] : {};
    const processes: unknown[] = Array.isArray(status["processes"]) ? status["processes"] : [];
    return [found, ...processes].flatMap((each) =>
      isRecord(each) && typeof each["port"] === "number" ? [each["port"]] : [],
    );
  });
}

/** Message and remedy; undefined: this process could listen there. */
async function portProblem(host: string, port: number, name: string): Promise<[string, string] | undefined> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  server.once("error", (error) => resolve(errorCode(error) ?? errorMessage(error)));
  server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  const code = await promise;
  switch (code) {
    case undefined:
      return undefined;
    case "EADDRINUSE":
      return [`${port} is taken by another program`, `stop that program, or set ${name} to another port`];
    case "EACCES":
      return [`${port} needs privileges`, `set ${name} to a port above 1023`];
    case "EADDRNOTAVAIL":
      return [`${host} is no address of this machine`, "set SVC_HOST to one that is"];
    default:
      return [`no program can listen on ${host}:${port} (${code})`, `set SVC_HOST or ${name} to another`];
  }
}

async function answerOf(url: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMs), redirect: "manual" });
    const found: unknown = await response.json();
    return isRecord(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

async function answers(url: string): Promise<boolean> {
  return await fetch(url, { signal: AbortSignal.timeout(answerMs) }).then(
    (response) => response.ok,
    () => false,
  );
}
