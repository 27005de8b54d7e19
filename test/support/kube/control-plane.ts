import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { z } from "zod";
import { freePort } from "../free-port.ts";
import { tempDir } from "../temp-dir.ts";
import { until } from "../until.ts";
import { makeAuthority, openAuthority, type Authority } from "./certificates.ts";
import { kubeProgram, startProgram, type Program } from "./programs.ts";

export interface ControlPlaneOptions {
  /** Controllers and scheduler too: cascading deletion, deletion of namespaces, service accounts' defaults. */
  readonly controllers?: boolean;
  /** The address of a node, which reaches the API server by it. */
  readonly nodeAddress?: string;
}

/** The facts that another process needs to use an API server; the token is that of a user with all rights. */
export const apiServerFactsSchema = z.object({ directory: z.string(), url: z.string(), token: z.string() }).readonly();
export type ApiServerFacts = z.infer<typeof apiServerFactsSchema>;

/** An API server on loopback. */
export interface ApiServer extends ApiServerFacts {
  readonly caFile: string;
  /** For the user with all rights. */
  readonly kubeconfig: string;
  /** The kubeconfig of another user: `system:kube-proxy` and the like. */
  kubeconfigOf(user: string): string;
  /**
   * The answer as a value; rejects where it is no success, or has not come whole within ten seconds. `body` is posted. Without
   * a process: kubectl takes a tenth of a CPU second.
   */
  ask(path: string, body?: object): Promise<unknown>;
  /** Standard output; rejects with standard error. `input`: its standard input. */
  kubectl(args: readonly string[], input?: string): Promise<string>;
  /** A namespace of the test's own. */
  namespace(): Promise<string>;
  readonly issue: Authority["issue"];
}

/** A real etcd and kube-apiserver on loopback, on free ports, with everything in a temporary directory. */
export interface ControlPlane extends ApiServer, AsyncDisposable {
  /** Ends the API server at once; etcd stays. */
  killApiServer(): Promise<void>;
  /** On the same port, after `killApiServer`. */
  startApiServer(): Promise<void>;
}

/** The first address of the services' network is the API server's own, for Pods. */
export const serviceNetwork = { cidr: "10.96.0.0/16", apiServer: "10.96.0.1" } as const;

export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  await using stack = new AsyncDisposableStack();
  const temporary = stack.use(await tempDir());
  const directory = temporary.path;
  const log = (name: string): string => join(directory, `${name}.log`);
  const authority = await makeAuthority(join(directory, "pki"));
  const { nodeAddress } = options;
  const hasControllers = options.controllers === true || nodeAddress !== undefined;
  const names = ["DNS:localhost", "DNS:kubernetes.default.svc", "IP:127.0.0.1", `IP:${serviceNetwork.apiServer}`];
  const nodeNames = nodeAddress === undefined ? [] : [`IP:${nodeAddress}`];
  const serving = await authority.issue("apiserver", "/CN=kube-apiserver", "serverAuth", [...names, ...nodeNames]);
  const toKubelet = await authority.issue("kubelet-client", "/O=system:masters/CN=kube-apiserver", "clientAuth");
  const signing = await authority.keyPair("accounts");
  const users: readonly (readonly [string, string])[] = [
    ["admin", "system:masters"],
    ["system:kube-controller-manager", ""],
    ["system:kube-scheduler", ""],
    ["system:kube-proxy", ""],
    ["system:node:node1", "system:nodes"],
  ];
  const tokens = new Map(users.map(([user]) => [user, randomBytes(16).toString("hex")]));
  const tokenFile = join(directory, "tokens.csv");
  await writeFile(
    tokenFile,
    users.map(([user, group]) => `${tokens.get(user)},${user},${user},"${group}"\n`).join(""),
    { mode: 0o600 },
  );
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const url = `https://127.0.0.1:${port}`;
  for (const [user] of users)
    await writeFile(kubeconfigFile(directory, user), kubeconfigText(url, authority.caFile, tokens.get(user) ?? ""), {
      mode: 0o600,
    });
  const token = tokens.get("admin") ?? "";
  const server = openApiServer({ directory, url, token });

  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const peerUrl = `http://127.0.0.1:${peerPort}`;
  stack.use(
    await startProgram(
      kubeProgram("etcd"),
      [
        `--data-dir=${join(directory, "etcd")}`,
        `--listen-client-urls=${etcdUrl}`,
        `--advertise-client-urls=${etcdUrl}`,
        `--listen-peer-urls=${peerUrl}`,
        `--initial-advertise-peer-urls=${peerUrl}`,
        `--initial-cluster=default=${peerUrl}`,
        // The state is gone with the test.
        "--unsafe-no-fsync",
      ],
      { logFile: log("etcd"), ready: async () => (await fetch(`${etcdUrl}/health`)).ok },
    ),
  );
  await mkdir(join(directory, "apiserver"), { recursive: true });
  const apiServer: { program?: Program } = {};
  const startApiServer = async (): Promise<void> => {
    apiServer.program = await startProgram(
      kubeProgram("kube-apiserver"),
      [
        `--etcd-servers=${etcdUrl}`,
        `--bind-address=${nodeAddress === undefined ? "127.0.0.1" : "0.0.0.0"}`,
        `--advertise-address=${nodeAddress ?? "127.0.0.1"}`,
        `--endpoint-reconciler-type=${nodeAddress === undefined ? "none" : "lease"}`,
        `--secure-port=${port}`,
        `--tls-cert-file=${serving.cert}`,
        `--tls-private-key-file=${serving.key}`,
        `--client-ca-file=${authority.caFile}`,
        `--token-auth-file=${tokenFile}`,
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        // Default accounts are made by a controller, which runs only where a test asks for controllers.
        ...(hasControllers ? [] : ["--disable-admission-plugins=ServiceAccount"]),
        "--service-account-issuer=https://kubernetes.default.svc",
        `--service-account-key-file=${signing.publicKey}`,
        `--service-account-signing-key-file=${signing.key}`,
        `--kubelet-client-certificate=${toKubelet.cert}`,
        `--kubelet-client-key=${toKubelet.key}`,
        "--kubelet-preferred-address-types=InternalIP",
        `--service-cluster-ip-range=${serviceNetwork.cidr}`,
        "--allow-privileged=true",
        "--profiling=false",
      ],
      { logFile: log("kube-apiserver"), ready: async () => (await server.ask("/readyz")) === "ok" },
    );
  };
  stack.defer(async () => await apiServer.program?.[Symbol.asyncDispose]());
  await startApiServer();
  if (hasControllers) {
    for (const name of ["kube-controller-manager", "kube-scheduler"]) {
      const config = server.kubeconfigOf(`system:${name}`);
      const serve = await freePort();
      stack.use(
        await startProgram(
          kubeProgram(name),
          [
            `--kubeconfig=${config}`,
            `--authentication-kubeconfig=${config}`,
            `--authorization-kubeconfig=${config}`,
            "--bind-address=127.0.0.1",
            `--secure-port=${serve}`,
            "--leader-elect=false",
            "--profiling=false",
            ...(name === "kube-scheduler"
              ? []
              : [
                  "--use-service-account-credentials=true",
                  `--service-account-private-key-file=${signing.key}`,
                  `--root-ca-file=${authority.caFile}`,
                ]),
          ],
          { logFile: log(name), ready: () => Promise.resolve(true) },
        ),
      );
    }
  }
  if (hasControllers) await until("the default service account", () => server.ask(defaultAccount("default")));
  const owned = stack.move();
  return {
    ...server,
    killApiServer: async () => await apiServer.program?.kill(),
    startApiServer,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const askMs = 10_000;

/** How many this process has made, on whatever API server. */
const namespaces = { made: 0 };

/** The API server of a control plane that this or another process has started. */
export function openApiServer({ directory, url, token }: ApiServerFacts): ApiServer {
  const authority = openAuthority(join(directory, "pki"));
  const ca = readFileSync(authority.caFile);
  const kubeconfig = kubeconfigFile(directory, "admin");
  const ask: ApiServer["ask"] = async (path, body) => {
    const content = body === undefined ? undefined : JSON.stringify(body);
    const type = content === undefined ? {} : { "content-type": "application/json" };
    const headers = { authorization: `Bearer ${token}`, ...type };
    const method = content === undefined ? "GET" : "POST";
    const sent = request(`${url}${path}`, { ca, headers, method, agent: false, signal: AbortSignal.timeout(askMs) });
    sent.end(content);
    const [answer]: IncomingMessage[] = await once(sent, "response");
    if (answer === undefined) throw new Error("no answer");
    const said = await text(answer);
    const { statusCode = 0 } = answer;
    if (statusCode < 200 || statusCode > 299) throw new Error(`${statusCode}: ${said}`);
    return said.startsWith("{") ? JSON.parse(said) : said;
  };
  const kubectl = async (args: readonly string[], input?: string): Promise<string> =>
    await new Promise((resolve, reject) => {
      const child = execFile(
        kubeProgram("kubectl"),
        [`--kubeconfig=${kubeconfig}`, ...args],
        { maxBuffer: 64 * 1024 * 1024, env: { ...process.env, HOME: directory } },
        (error, stdout, stderr) => (error === null ? resolve(stdout) : reject(new Error(stderr, { cause: error }))),
      );
      child.stdin?.end(input ?? "");
    });
  return {
    directory,
    url,
    caFile: authority.caFile,
    token,
    kubeconfig,
    kubeconfigOf(user) {
      const path = kubeconfigFile(directory, user);
      if (!existsSync(path)) throw new Error(`no user ${user}`);
      return path;
    },
    ask,
    kubectl,
    async namespace() {
      namespaces.made += 1;
      const name = `test-${process.pid}-${namespaces.made}`;
      await ask("/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
      return name;
    },
    issue: (...args) => authority.issue(...args),
  };
}

function kubeconfigFile(directory: string, user: string): string {
  return join(directory, `${user.replaceAll(":", "-")}.kubeconfig`);
}

/** One cluster, one user, in the form that every client reads. */
export function kubeconfigText(server: string, caFile: string, token: string, namespace?: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, "certificate-authority": caFile } }],
    users: [{ name: "test", user: { token } }],
    contexts: [
      { name: "test", context: { cluster: "test", user: "test", ...(namespace === undefined ? {} : { namespace }) } },
    ],
    "current-context": "test",
  });
}

/** The path of the account that a controller makes in each namespace, without which no Pod starts. */
export function defaultAccount(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/serviceaccounts/default`;
}
