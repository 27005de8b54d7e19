import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { get as getSecurely } from "node:https";
import { join } from "node:path";
import { it } from "node:test";
import { promisify } from "node:util";
import { startGateway } from "../gateway/auth/gateway.ts";
import { berthProcess } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";
import { freePorts } from "../support/ports.ts";
import { startServer } from "./server.ts";
import { password, user } from "./site.ts";

const name = "ai.example.org";

/** Everything below is on loopback: Pebble is Let's Encrypt's test server, and its companion says where the name is. */
it("a public name gets its certificate through ACME by HTTP-01, with our contact", async () => {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await tempDir()).path;
  const { first } = await freePorts(7);
  const [httpPort, httpsPort, adminPort, acmePort] = [first, first + 1, first + 2, first + 3];
  const [managementPort, dnsPort, dnsManagementPort] = [first + 4, first + 5, first + 6];
  const [key, certificate] = [join(directory, "pebble.key"), join(directory, "pebble.crt")];
  const subject = ["-subj", "/CN=pebble", "-addext", "subjectAltName=IP:127.0.0.1"];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  await promisify(execFile)("openssl", ["req", "-x509", ...curve, "-keyout", key, "-out", certificate, ...subject]);
  const authority = await readFile(certificate, "utf8");
  const pebbleConfig = {
    listenAddress: `127.0.0.1:${acmePort}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate,
    privateKey: key,
    httpPort,
    tlsPort: httpsPort,
  };
  await writeFile(join(directory, "pebble.json"), JSON.stringify({ pebble: pebbleConfig }));
  const dns = ["-dns01", `127.0.0.1:${dnsPort}`, "-management", `127.0.0.1:${dnsManagementPort}`];
  const nothingElse = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""];
  stack.use(
    await startServer("pebble-challtestsrv", [...dns, ...nothingElse], {}, async () => {
      return await new Promise((resolve) => {
        get(`http://127.0.0.1:${dnsManagementPort}/`, (response) => {
          response.resume();
          resolve(true);
        }).once("error", () => resolve(false));
      });
    }),
  );
  const pebble = stack.use(
    await startServer(
      "pebble",
      ["-config", join(directory, "pebble.json"), "-dnsserver", `127.0.0.1:${dnsPort}`],
      { PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "0" },
      async () => (await textOf(`https://127.0.0.1:${acmePort}/dir`, authority)) !== "",
    ),
  );

  const gateway = stack.use(await startGateway({ SVC_AUTH_ENABLED: "1", SVC_HOSTNAME: name }));
  const rendered = await berthProcess(
    ["proxy", "render", `--http-port=${httpPort}`, `--https-port=${httpsPort}`, `--caddy-admin=127.0.0.1:${adminPort}`],
    {
      SVC_STATE_DIR: gateway.stateDir,
      SVC_CONFIG_DIR: gateway.stateDir,
      SVC_AUTH_ENABLED: "1",
      SVC_PORT: String(gateway.port),
      SVC_HOSTNAME: name,
      SVC_TLS_EMAIL: "ops@example.org",
      SVC_ADMIN_USER: user,
      SVC_ADMIN_PASSWORD: password,
    },
  );
  assert.equal(rendered.code, 0, rendered.stderr);
  // The one thing that differs from the internet: which authority, and why to trust its own server.
  const issuer = `issuer acme {\n\t\t\tdir https://127.0.0.1:${acmePort}/dir\n\t\t\ttrusted_roots ${certificate}`;
  const file = join(directory, "Caddyfile");
  await writeFile(file, rendered.stdout.replace("issuer acme {", issuer));
  const caddyEnv = {
    HOME: directory,
    XDG_DATA_HOME: join(directory, "data"),
    XDG_CONFIG_HOME: join(directory, "config"),
  };
  stack.use(
    await startServer("caddy", ["run", "--config", file, "--adapter", "caddyfile"], caddyEnv, async () => {
      const root = await textOf(`https://127.0.0.1:${managementPort}/roots/0`, authority);
      const answer = await textOf(`https://127.0.0.1:${httpsPort}/api/auth/status`, root, name);
      return answer.includes('"enabled":true');
    }),
  );
  assert.match(pebble.log(), /Attempting to validate w\/ HTTP: http:\/\/ai\.example\.org:/);
  assert.doesNotMatch(pebble.log(), /Attempting to validate w\/ TLS/);
  const accounts = await readdir(join(directory, "data/caddy/acme"), { recursive: true });
  assert.ok(
    accounts.some((path) => path.endsWith("users/ops@example.org")),
    accounts.join(),
  );
  const location = await new Promise<string | undefined>((resolve, reject) => {
    const options = { host: "127.0.0.1", port: httpPort, path: "/", headers: { host: name } };
    get(options, (response) => resolve(response.headers.location)).once("error", reject);
  });
  assert.equal(location, `https://${name}/`);
});

/** The body of a 200, else nothing. `ca` alone is trusted. */
async function textOf(url: string, ca: string, servername?: string): Promise<string> {
  return await new Promise((resolve) => {
    const headers = servername === undefined ? {} : { host: servername };
    const sni = servername === undefined ? {} : { servername };
    getSecurely(url, { ca, headers, agent: false, ...sni }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (bytes: string) => (text += bytes));
      response.once("end", () => resolve(response.statusCode === 200 ? text : ""));
    }).once("error", () => resolve(""));
  });
}
