import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort } from "../support/free-port.ts";
import { listen } from "../support/listen.ts";
import { tempDir } from "../support/temp-dir.ts";
import { until } from "../support/until.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes".split(" ");

/** An authority of its own in the directory, as Caddy has one. */
async function authority(cwd: string): Promise<(days: number) => Promise<{ key: string; cert: string }>> {
  const openssl = async (...args: string[]): Promise<void> =>
    void (await promisify(execFile)("openssl", args, { cwd }));
  await openssl("req", "-x509", ...curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=own");
  const asked = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  await openssl("req", ...curve, "-keyout", "key.pem", "-out", "asked.csr", ...asked);
  return async (days) => {
    const signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-copy_extensions", "copy", "-days", String(days)];
    await openssl("x509", "-req", "-in", "asked.csr", ...signed, "-out", "cert.pem");
    const [key, cert] = await Promise.all(["key.pem", "cert.pem"].map((name) => readFile(join(cwd, name), "utf8")));
    return { key: key ?? "", cert: cert ?? "" };
  };
}

test("the blackbox exporter tells by its module when a certificate ends, and fails once it has", async () => {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const sign = await authority(path);
  const server = createServer(await sign(2), (_request, response) => response.end("ok\n"));
  const port = await listen(server, await freePort());
  stack.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  const module = await readFile(join(root, "manifests/monitoring/blackbox.yaml"), "utf8");
  const config = join(path, "blackbox.yaml");
  await writeFile(config, module.replace("/etc/prometheus/berth-root.crt", join(path, "ca.crt")));
  const exporter = await freePort();
  const child = spawn(
    "prometheus-blackbox-exporter",
    [`--config.file=${config}`, `--web.listen-address=127.0.0.1:${exporter}`],
    { stdio: "ignore" },
  );
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  stack.defer(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  const scrape = await readFile(join(root, "manifests/monitoring/scrape/edge.yaml"), "utf8");
  const [, name = ""] = /module: \[(\w+)\]/.exec(scrape) ?? [];
  const probe = async (): Promise<string> => {
    const query = new URLSearchParams({ module: name, target: `https://localhost:${port}/livez` });
    const answer = await fetch(`http://127.0.0.1:${exporter}/probe?${query.toString()}`);
    return await answer.text();
  };
  await until("the exporter answers", async () => (await probe()).includes("probe_success"));
  const good = await probe();
  assert.match(good, /^probe_success 1$/m);
  const endsAt = Number(/^probe_ssl_earliest_cert_expiry (\S+)$/m.exec(good)?.[1]);
  const days = (endsAt - Date.now() / 1000) / 86_400;
  assert.ok(days > 1 && days < 3, String(days));

  server.setSecureContext(await sign(-1));
  server.closeAllConnections();
  const bad = await probe();
  assert.match(bad, /^probe_success 0$/m);
  assert.doesNotMatch(bad, /^probe_ssl_earliest_cert_expiry /m, "BerthCertificateExpiry is silent by now");
});
